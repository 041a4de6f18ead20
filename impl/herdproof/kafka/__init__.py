"""Kafka: a real broker for tests and trials, its jars, and topics on it."""
