"""What members of a group write into ZooKeeper, to the byte as Kafka 0.8 does, and read there."""
