"""
The tables that an audit or a campaign writes: one Parquet directory each, one schema, said once.

Every table begins with `run` and `group`: a run is what one trace calls so, or the name that the
user gave a cluster. Times are nanoseconds since 1970; what is not known is null, never 0 or "".
Rows that whoever makes them leaves out columns of are filled with nulls (`filled`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]
Rows = dict[str, list[Row]]
"""Rows by the name of their table."""

ARROW = {
    "string": pa.string(),
    "binary": pa.binary(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
}
"""A column's kind, in Spark's words, as Arrow has it."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its kind in Spark's words, and what it says."""

    name: str
    kind: str
    says: str


@dataclass(frozen=True)
class Table:
    """A table: what one row is, and its columns."""

    name: str
    says: str
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The schema in Spark's words."""
        return ", ".join(f"`{c.name}` {c.kind}" for c in self.columns)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema as Arrow has it."""
        return pa.schema([(c.name, ARROW[c.kind]) for c in self.columns])

    def filled(self, rows: Sequence[Row]) -> pa.Table:
        """Rows as an Arrow table; a column that a row does not name is null."""
        known = {c.name for c in self.columns}
        for row in rows:
            if not row.keys() <= known:
                unknown = ", ".join(sorted(row.keys() - known))
                raise KeyError(f"{self.name} has no column {unknown}")
        try:
            return pa.Table.from_pylist(list(rows), schema=self.arrow)
        except OverflowError:  # a moment so long before a line of the least time
            return pa.Table.from_pylist([_within(row) for row in rows], schema=self.arrow)


def _within(row: Row) -> Row:
    """The row without integers beyond 64 bits: they are not known."""
    return {
        name: None if isinstance(value, int) and not -(2**63) <= value < 2**63 else value
        for name, value in row.items()
    }


def _table(name: str, says: str, columns: str) -> Table:
    """A table from lines of `name kind: what it says`; `run` and `group` come first."""
    rows = [line.strip().split(" ", 2) for line in columns.strip().splitlines()]
    return Table(
        name,
        says,
        (
            Column("run", "string", "what the trace calls its run, or the name of the cluster"),
            Column("group", "string", "the consumer group; empty for what concerns all groups"),
            *(Column(column, kind.rstrip(":"), what) for column, kind, what in rows),
        ),
    )


_TABLES = (
    _table(
        "generations",
        "A generation of a group: from its rebalance's beginning until it was stable, or failed.",
        """
        epoch long: of the coordinator that began it
        generation long: its number
        coordinator string: the node that began it
        begun_ns long: when its rebalance began
        written_ns long: when its owners were stored
        settled_ns long: when every member had started
        members long: how many members it has
        partitions long: how many partitions are assigned in it
        outcome string: settled, failed, superseded or open
        """,
    ),
    _table(
        "memberships",
        "A member of a group, from its registration until it was gone.",
        """
        member string: the registration, as its coordinator names it
        consumer string: the consumer's id
        joined_ns long: when it was accepted
        left_ns long: when its coordinator, or the next one, counted it as gone
        how string: left, closed, failed, deposed, open, or unknown where the source does not tell
        """,
    ),
    _table(
        "ownership",
        "An interval in which a consumer could deliver a partition's records.",
        """
        topic string: the topic
        partition string: the partition's number
        consumer string: who had it
        member string: its registration, where the source tells it
        epoch long: of the request that began it
        generation long: of the request that began it
        from_ns long: when it began
        to_ns long: when it ended: nothing was delivered any more
        from_offset long: where it began
        to_offset long: up to where it is known to have finished, at least
        ended string: stopped, lost_connection, lease_over, assigned (to another one) or open
        known boolean: false where late or missing events leave open what happened
        """,
    ),
    _table(
        "unread",
        "A stretch of time in which nobody read a partition, with what stood in the way.",
        """
        topic string: the topic
        partition string: the partition's number
        from_ns long: when the stretch began
        until_ns long: when it ended; null where nobody reads it in the end
        seconds double: how long it was; without an end, up to the last line
        why string: what stood in the way, see below
        who string: who was waited for, or is about
        certain boolean: false where who is not heard any more may have gone on
        since_ns long: since when nobody read it, over all stretches
        whole_s double: for how long nobody read it, in all
        """,
    ),
    _table(
        "commits",
        "An offset that was committed, or refused.",
        """
        topic string: the topic
        partition string: the partition's number
        offset long: the first offset that was not finished
        consumer string: who committed it, where the source tells it
        epoch long: of the coordinator that took it
        generation long: in which it was taken
        time_ns long: when
        outcome string: accepted, refused, stored or unknown
        """,
    ),
    _table(
        "violations",
        "Something that the contract, or the protocol, or its spec, does not allow.",
        """
        property string: its name in the contract, or `conforms` for a replay that differs
        sentence string: what is promised
        time_ns long: when it was seen
        place string: the file and line, or topic, partition and offset, that showed it
        told string: what happened, in a sentence
        story array<string>: the changes that led to it, the last one last: `time_ns|from|to|what`
        """,
    ),
    _table(
        "verdicts",
        "What a property came to for one group, from this source.",
        """
        protocol string: of the trace; `__consumer_offsets` for Kafka's own log
        property string: its name in the contract, or `conforms` for the replay in the spec
        verdict string: holds, violated, not observable or unknown
        why string: what could not be observed, is unknown, or is missing
        checked long: how many of its instances were looked at
        """,
    ),
    _table(
        "coverage",
        "How often an action of the spec was taken in the replay of a group.",
        """
        protocol string: of the trace
        action string: the spec's action
        taken long: how often
        """,
    ),
    _table(
        "figures",
        "A measured value: one for each occurrence (with its time), or one for the group.",
        """
        name string: one of the figures below
        time_ns long: when it was measured; null for a value of the whole group
        about string: what it is of: a partition, a member; null for the group
        value double: the value; null where nobody can see it
        unit string: s, count, records or 1/min
        """,
    ),
    _table(
        "quarantine",
        "A record that was not audited: malformed, late, twice there or of an unknown kind.",
        """
        reason string: malformed, unknown_version, unknown_protocol, late or duplicate
        why string: what exactly is wrong with it
        place string: the file and line, or topic, partition and offset
        time_ns long: its own time, where it has one
        raw binary: the record as it was read, at most 64 kB of it
        """,
    ),
)
TABLES: Mapping[str, Table] = {table.name: table for table in _TABLES}
