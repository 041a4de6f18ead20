"""Commands that run something: coordinators, consumers, ZooKeeper, Kafka."""
