"""The tables that a campaign writes beside those of an audit: its runs, and what they took."""

from __future__ import annotations

from collections.abc import Mapping

from herdproof.pipeline.spark.tables import Column, Table

_SUBJECT = (
    Column("run", "string", "the mix and the seed: `mixed/7`"),
    Column("group", "string", "empty: a run is about all of its groups"),
)


def _table(name: str, says: str, columns: str) -> Table:
    """A table from lines of `name kind: what it says`."""
    rows = [line.strip().split(" ", 2) for line in columns.strip().splitlines()]
    made = (Column(column, kind.rstrip(":"), what) for column, kind, what in rows)
    return Table(name, says, (*_SUBJECT, *made))


_TABLES = (
    _table(
        "runs",
        "A run of the simulator.",
        """
        protocol string: what was simulated
        number long: which run of the campaign it is, from 0 on
        seed long: its seed
        mix string: the configuration's name, and with it which faults there are
        configuration string: what it was asked to be, where it differs from the default
        flaw string: the mistake that its cores were told to have; null without one
        outcome string: kept; broken where a monitor or the judge saw a promise broken; or unknown
        broken array<string>: what was broken, by name; `conforms` where the replay differs
        told string: how the first of them was broken, or why nothing is known
        steps long: steps that its processes took
        lines long: lines of its trace
        replayed long: steps of the spec that its replay took
        edges long: distinct edges among them
        digest string: of all that happened; that of another run is another
        seconds double: of processor time, of the run and its audit
        """,
    ),
    _table(
        "edges",
        "An edge: an abstract transition of the spec that a run took. `run` took it first.",
        """
        protocol string: what was simulated
        edge string: a digest of the action, and of what it changed in whom
        action string: the spec's action
        first long: the number of the first run that took it
        runs long: how many runs took it
        """,
    ),
    _table(
        "curve",
        "How many edges were new in a stretch of the campaign's runs. `run` is empty.",
        """
        protocol string: what was simulated
        runs long: up to this number of runs
        new long: edges that no run before this stretch took
        edges long: edges that were taken up to here
        """,
    ),
)
CAMPAIGN_TABLES: Mapping[str, Table] = {table.name: table for table in _TABLES}
