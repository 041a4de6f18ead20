"""The deterministic world of the group protocol: brokers, members, ZooKeeper, what goes wrong."""
