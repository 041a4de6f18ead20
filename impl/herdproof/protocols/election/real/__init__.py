"""Real electors on a real ZooKeeper: held at gates, or running freely and disturbed."""
