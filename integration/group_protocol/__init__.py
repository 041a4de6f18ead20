"""System C's client, what its users get for tests, and its answers beside Kafka's own."""
