"""The deterministic world of system A: members, ZooKeeper, Kafka, and what goes wrong."""
