"""`herdproof demo`: a herd of real processes that is broken on a plan, watched, and judged."""
