"""System A on real ZooKeeper and Kafka, in one group with consumers of Kafka 0.8.2.2."""
