"""Variants of the group protocol: static members, cooperative ones, a choice of protocols."""
