"""ZooKeeper: the client, an embedded server, faults on the way to it, and the elector."""
