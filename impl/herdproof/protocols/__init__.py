"""The implemented protocols, a folder each, and how commands find what belongs to one."""
