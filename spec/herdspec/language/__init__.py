"""The spec language: reads a class's syntax tree into a typed, hash-consed expression graph."""
