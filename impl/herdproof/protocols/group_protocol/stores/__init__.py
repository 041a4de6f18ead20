"""Where groups are stored: the port, and what stands behind it, memory or ZooKeeper."""
