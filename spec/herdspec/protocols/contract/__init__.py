"""What every group coordination protocol owes its users: the spec that the others refine."""
