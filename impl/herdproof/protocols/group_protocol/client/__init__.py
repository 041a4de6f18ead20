"""Our client of the group protocol: its core, its assignors, and the shell that runs it."""
