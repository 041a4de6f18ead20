"""The protocols that herdproof implements, each entered once: spec, code, traces, simulator."""
