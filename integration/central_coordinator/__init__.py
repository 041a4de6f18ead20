"""System B on real ZooKeeper and Kafka, and the judge of what its consumers did."""
