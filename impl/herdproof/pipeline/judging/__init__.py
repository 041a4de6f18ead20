"""What happened to a group, watched: rows, violations and figures."""
