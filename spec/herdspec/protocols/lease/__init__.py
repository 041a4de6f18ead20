"""Leases under clocks that drift: who holds one stops before its grantor may count it as over."""
