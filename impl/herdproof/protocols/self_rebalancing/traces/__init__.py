"""Traces of system A: maps them to its spec's actions."""
