"""Specs about values: what is absent, out of bounds, or reckoned with."""
