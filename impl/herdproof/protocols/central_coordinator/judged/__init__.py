"""What traces of system B tell of the contract's fields, judged by the contract."""
