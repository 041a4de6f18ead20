"""The group coordinator behind a server of Kafka's wire: its codec, its shell, its settings."""
