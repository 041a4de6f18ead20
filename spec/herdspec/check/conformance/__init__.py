"""What traces allow: a spec that is led along lines of an implementation."""
