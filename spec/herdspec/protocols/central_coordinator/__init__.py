"""The spec of system B: one broker, elected through ZooKeeper, coordinates every group."""
