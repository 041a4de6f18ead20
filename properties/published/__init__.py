"""
Specs that others published, with how many states they have.

Each module is a spec from the TLA+ examples, written in this language action by action, at the
constants of the published model. `test_published.py` explores them and expects the published
numbers exactly: distinct states, depth, and (where a step is the same choice here and there)
generated states. The table with sources is in `docs/published.md`.
"""
