"""Specs of rings: elections, termination detection, and a token that stabilises."""
