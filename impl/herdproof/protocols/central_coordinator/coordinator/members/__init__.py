"""Members of groups: admitted, taken over from ZooKeeper, waited for, and cleared away."""
