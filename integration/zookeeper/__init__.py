"""The client, a fault proxy, and the simulated ZooKeeper beside a real one."""
