"""
What holds the implementation to its spec: this package alone sees both sides.

No rule is written here by hand: what may happen comes from the spec, and is done to the
implementation by the method of the same name. What the implementation is in is read from itself.
"""
