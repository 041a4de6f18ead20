"""Kafka and ZooKeeper as tests start them, as child processes and in containers."""
