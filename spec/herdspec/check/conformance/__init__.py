"""Trace validation: finds executions of a spec that explain the lines of a trace."""
