"""Observations of a run, judged by a spec's own properties, in three values."""
