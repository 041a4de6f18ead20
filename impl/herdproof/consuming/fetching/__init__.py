"""Fetching: records of assigned partitions, from Kafka into the streams of the application."""
