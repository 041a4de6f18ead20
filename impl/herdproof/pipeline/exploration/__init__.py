"""Explores a spec on Spark, level by level, with its states in files."""
