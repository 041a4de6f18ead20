"""The deterministic world of system B: brokers, consumers, Kafka, and what goes wrong."""
