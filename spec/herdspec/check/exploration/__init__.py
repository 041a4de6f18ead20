"""Explores every reachable state at given sizes: searches, counts and draws them."""
