"""Specs about steps: what they may be, where they begin, and what they are made of."""
