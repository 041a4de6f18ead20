"""Traces of the election: read, replayed in its spec, audited."""
