"""
Small specs whose truth is known: what the checker says of them is compared with it.

Each class's docstring declares what is true at 2 elements of each sort and 2 faults, or at what
stands before it (`at T=3, faults=0:`): of each property `holds`, `fails` with the length of a
shortest counterexample, or `open`, where no search ends. A number behind `holds` is the length of
the shortest witness of a `sometimes`. `meaning` is that every value is defined, and `next` that
there is always a next step; both hold where nothing is said. `dead` names the actions that are
never possible.
"""
