"""The same promises on real services: in Docker where an engine is, else on child processes."""
