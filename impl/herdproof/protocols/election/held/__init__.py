"""Electors held to the spec, step by step: in gates, simulated or on a real ZooKeeper."""
