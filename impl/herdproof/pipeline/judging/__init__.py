"""Judges what happened to a group: rows, violations and figures from neutral events."""
