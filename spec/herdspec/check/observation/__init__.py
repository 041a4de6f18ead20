"""What was observed of a run, judged by a spec's own properties, in three values."""
