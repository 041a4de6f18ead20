"""
A brute-force interpreter of the spec language, written from docs/language.md alone.

It is what the checker is judged by, so it shares nothing with it: it reads a spec's file as a
syntax tree, never executes it, and imports nothing of `herdspec`. It is plain and slow. States are
trees of Python values, naturals and channels have no bound, and a search ends at a number of
states (its horizon), far behind every bound of the checker; behind it the truth is unknown.

- `source` reads a file: sorts, enums, records, specs, properties.
- `values` knows the types: their elements, initial values, copies and keys.
- `expressions` and `steps` interpret them.
- `graph` explores, `liveness` looks for fair cycles, `truth` says of each property what is true.
"""
