"""System C: the group protocol of Kafka, JoinGroup and SyncGroup, by a coordinator of its own."""
