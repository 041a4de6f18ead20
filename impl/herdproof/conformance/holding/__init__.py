"""Takes a spec and real code through the same steps, and compares them after each."""
