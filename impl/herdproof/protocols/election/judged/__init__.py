"""What traces of the election tell of its contract's fields, judged by the contract."""
