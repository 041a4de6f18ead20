"""Variants of the self-rebalancing consumers: a real one of Kafka 0.8 among them, and one topic."""
