"""Brokers that stand for election on real ZooKeeper."""
