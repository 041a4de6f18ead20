"""Cooperative rebalancing: members keep what stays theirs."""
