"""The election of one coordinator through ZooKeeper: core, shell, what holds them to the spec."""
