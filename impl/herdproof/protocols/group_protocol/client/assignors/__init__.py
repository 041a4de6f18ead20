"""Assignors: who of a group gets which partitions, by Kafka's plans or by a user's own."""
