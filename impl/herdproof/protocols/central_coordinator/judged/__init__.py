"""Judges what system B's traces, and its simulated world, tell of the contract's fields."""
