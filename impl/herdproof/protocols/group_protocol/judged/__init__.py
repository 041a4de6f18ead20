"""Judges what is seen of groups of the group protocol by the contract."""
