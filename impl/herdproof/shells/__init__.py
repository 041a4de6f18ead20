"""The common parts of every protocol's shells: clock, timers, TLS, logs, metrics."""
