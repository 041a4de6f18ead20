"""Kafka's own `__consumer_offsets`: a cluster's groups, told by itself."""

TOPIC = "__consumer_offsets"
"""The name of the topic."""
