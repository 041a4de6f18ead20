"""Runs a spec step by step in its own Python, and prints each run in the spec's own words."""
