"""A spec explored on Spark, level by level, with its states in files."""
