"""System A: consumers that rebalance by themselves, through ZooKeeper alone."""
