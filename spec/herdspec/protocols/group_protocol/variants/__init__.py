"""Variants of the group protocol: static members, cooperative ones, and fetch positions."""
