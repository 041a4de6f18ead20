"""Electors in gates, simulated or on a real ZooKeeper: held to the spec step by step."""
