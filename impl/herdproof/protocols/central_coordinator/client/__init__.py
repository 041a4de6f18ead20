"""A consumer's core (its channels to coordinators, its leases) and the session that runs it."""
