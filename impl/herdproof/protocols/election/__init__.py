"""The election of one coordinator through ZooKeeper: its core, and the shell that runs it."""
