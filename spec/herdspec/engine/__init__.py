"""Lowering a spec to sizes, and emitting it for NumPy and z3."""
