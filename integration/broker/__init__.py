"""Unmodified clients at our coordinator of system C, by itself and in front of Kafka."""
