"""What every job on Spark needs: a session, sources, and tables to write."""
