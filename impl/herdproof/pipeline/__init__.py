"""The data pipeline: jobs on Spark for what one machine's memory or one evening cannot hold."""
