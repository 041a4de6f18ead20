"""Rebalances: whether one is necessary, what is planned, and who waits for whom meanwhile."""
