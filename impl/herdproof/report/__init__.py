"""
Renders the verdicts of `verify`: on a terminal, as HTML, JUnit and SARIF, for GitHub.

`junit.py` for test reports, `sarif.py` for code scanning, `github.py` for annotations of a pull
request, `html.py` for people: one page with tables, stories and diagrams (`diagrams.py`). All of
them are made from the same `Report`s, and say of every failure where it stands (`places.py`).
"""
