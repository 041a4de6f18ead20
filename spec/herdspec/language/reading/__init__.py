"""From the Python of a spec to expressions: what each statement and each expression means."""
