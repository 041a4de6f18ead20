"""Real code held to its spec: adapters, generated tests, stories, states from the solver."""
