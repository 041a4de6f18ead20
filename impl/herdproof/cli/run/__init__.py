"""Commands that run something: coordinators, consumers, services."""
