"""The data pipeline: what one machine's memory or one evening cannot hold goes to Spark."""
