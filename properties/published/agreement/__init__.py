"""Specs of processes that agree: on a value, or on the end of a transaction."""
