"""Registries in ZooKeeper that members of a group write and read, to the byte as Kafka 0.8 does."""
