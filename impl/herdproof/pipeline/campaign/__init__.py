"""Campaigns: many runs of a simulator, each audited where it is made."""
