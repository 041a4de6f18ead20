"""What the shells of every protocol are made of: clock, timers, TLS, logs, metrics."""
