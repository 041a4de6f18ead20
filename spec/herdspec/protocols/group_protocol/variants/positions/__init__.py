"""Fetch positions: where clients begin, and what an OffsetReset finds."""
