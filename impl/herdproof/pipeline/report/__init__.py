"""
The report: what the tables of an audit or a campaign say, for people and for CI.

`reading.py` opens the tables, `facts.py` finds what is worth telling in them; `page.py` makes one
page of HTML of it (with `timelines.py`, `diagrams.py` and `charts.py`), `junit.py` a test report.
No Spark is needed: the tables are read in batches, and never held as a whole.
"""
