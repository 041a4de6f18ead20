"""Single runs, many or deep: random walks, and the shortest one by bounded search."""
