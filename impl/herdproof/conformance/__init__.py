"""Holds any code to its spec: adapters, generated tests, stories, states from the solver."""
