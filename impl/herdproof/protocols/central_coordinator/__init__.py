"""System B: one broker, elected through ZooKeeper, coordinates every group."""
