"""The spec of system C: JoinGroup and SyncGroup, as Kafka's own clients speak them."""
