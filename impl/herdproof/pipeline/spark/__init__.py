"""The parts that every job on Spark needs: a session, sources, and tables to write."""
