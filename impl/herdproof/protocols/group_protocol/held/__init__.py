"""System C's core held to the spec, and the mistakes that it can be made to have."""
