"""Audits, campaigns and explorations on Spark, and pages in a real browser."""
