"""A server that speaks Kafka's wire: a log in memory, or the front of a real Kafka."""
