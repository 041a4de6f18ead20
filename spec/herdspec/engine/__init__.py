"""Lowers a spec to given sizes, and emits it for NumPy, LLVM, plain Python and z3."""
