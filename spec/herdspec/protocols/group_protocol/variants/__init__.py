"""Variants of the group protocol: static members, and members that rebalance cooperatively."""
