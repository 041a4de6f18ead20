"""The election of one coordinator through ZooKeeper."""
