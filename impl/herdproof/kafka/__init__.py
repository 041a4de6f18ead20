"""A real Kafka broker for tests and trials: its jars, its process, and topics on it."""
