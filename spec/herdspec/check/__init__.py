"""The readings of a spec: run, explore, prove, refine, conform."""
