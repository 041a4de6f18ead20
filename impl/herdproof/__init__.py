"""Consumer-group coordination that is specified, proved, tested and run from one source."""
