"""The spec of system A: consumers that rebalance by themselves, through ZooKeeper alone."""
