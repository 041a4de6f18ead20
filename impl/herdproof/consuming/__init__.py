"""Consuming, whatever the protocol: from Kafka, by partition, to the application."""
