"""ZooKeeper: the client, an embedded server, and a proxy that breaks the way to it."""
