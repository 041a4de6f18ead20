"""Follows single runs of a spec: random walks, and the shortest run by bounded search."""
