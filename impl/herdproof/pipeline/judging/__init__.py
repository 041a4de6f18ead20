"""Judges groups by a contract's own properties: rows, figures and verdicts from its fields."""
