"""Variants of the group protocol: members of other kinds, choice of protocols, administration."""
