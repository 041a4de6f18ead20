"""A coordinator's process beside a Kafka broker."""
