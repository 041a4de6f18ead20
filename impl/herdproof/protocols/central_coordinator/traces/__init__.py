"""Traces of system B: reads them, maps them to its spec's actions, decodes them for the audit."""
