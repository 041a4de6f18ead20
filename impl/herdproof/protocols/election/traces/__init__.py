"""Traces of the election: reads them, maps them to its spec's actions, audits them."""
