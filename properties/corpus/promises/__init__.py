"""Specs about promises: what must come, holds for ever, or holds of nothing."""
