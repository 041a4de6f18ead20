"""Traces of the election, in the terms of its contract's fields, judged by the contract."""
