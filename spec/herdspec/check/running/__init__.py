"""A spec taken step by step in its own Python, and told in its own words."""
