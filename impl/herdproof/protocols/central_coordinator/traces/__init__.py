"""Traces of system B: read, replayed in its spec, audited."""
