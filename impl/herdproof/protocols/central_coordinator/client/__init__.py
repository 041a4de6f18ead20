"""A consumer's core and its session."""
