"""Specs of what one process says and others come to have: broadcast, transfer, a replicated log."""
