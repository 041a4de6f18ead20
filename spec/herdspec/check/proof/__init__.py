"""Proves properties for any number of elements, by induction, with z3."""
