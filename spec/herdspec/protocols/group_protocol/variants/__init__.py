"""Variants of the group protocol: other members, choice, administration, fetch positions."""
