"""From a class's syntax tree to a typed expression graph."""
