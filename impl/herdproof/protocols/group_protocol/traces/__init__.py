"""Traces of system C: maps the coordinators' lines to its spec's actions."""
