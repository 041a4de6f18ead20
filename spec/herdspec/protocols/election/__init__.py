"""The spec of the election of one coordinator through ZooKeeper."""
