"""
Work of a streaming audit's workers: a part of the stream in, rows and a new state out.

Pure functions on frames. What comes out of a part is the same whenever it is made again, so that a
part that was cut short can be repeated. A row holds some rows of a table, packed; `open` ones stand
for as long as no later part has others of their group.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from herdproof.pipeline.audit.following import Bucket, Came, Part, not_replayed
from herdproof.pipeline.audit.judge import add_replay
from herdproof.pipeline.audit.protocols import auditors
from herdproof.pipeline.audit.work import Work
from herdproof.pipeline.judging.gaps import doubted_in
from herdproof.pipeline.spark.outgoing import Outgoing, filled, ipc, quarantined
from herdproof.pipeline.spark.packets import NUMBERS, Packet
from herdproof.pipeline.spark.sources import place_of
from herdproof.pipeline.spark.tables import Row

PACKED_DDL = (
    "protocol string, run string, `group` string, open boolean, `table` string, lines long, "
    "payload binary"
)
"""`lines`: how many records of the source a row counts."""
STATE_DDL = "state binary"

KEPT = "lines"
"""The rows that are no table's: lines as they were told, for the replay."""
_KEPT_ARROW = pa.schema([("place", pa.string()), ("raw", pa.binary())])

REPLAYED_MOST = 1_000_000
"""The most lines of a group that are replayed; whether more conform is unknown."""

LATER = "the lines of a stream are replayed when it ends"

Packed = tuple[str | None, str | None, str | None, bool, str, int, bytes]
Key = tuple[str | None, str | None, int]


def follow_part(
    key: Key, packets: Iterable[Packet], state: bytes | None, work: Work, late_ns: int, keep: bool
) -> tuple[list[Packed], bytes | None]:  # fmt: skip
    """
    The rows that a part brought for one bucket of a run, and its state after it.

    `keep` says that told lines are kept for the replay.
    """
    protocol, run, number = key
    if protocol is None or run is None:
        found = [quarantined(*bad) for packet in packets for bad in packet.bad()]
        counted = _counted(None, None, None, len(found), len(found))
        return list(_packed((None, None, None), False, quarantine=found, counted=[counted])), None
    bucket = Bucket(protocol, run) if state is None else pickle.loads(state)
    own: dict[str, list[Came]] = {}
    common: list[Came] = []
    numbers: list[bytes] = []
    for packet in packets:
        if packet.kind == NUMBERS:
            numbers.append(packet.payload)
        elif packet.group or protocol in work.ungrouped:
            own.setdefault(packet.group or "", []).extend(_came(packet, work))
        else:
            common += _came(packet, work)
    counts = [_counted(protocol, run, group, len(lines)) for group, lines in own.items()]
    if number == 0 and common:
        counts.append(_counted(protocol, run, None, len(common)))
    of_all = {came.line.place for came in common}
    out = list(_packed((protocol, run, None), False, counted=counts))
    for part in bucket.take(own, common, numbers, late_ns):
        out += _of_part((protocol, run, part.group), part, of_all, keep)
    return out, pickle.dumps(bucket)


def _came(packet: Packet, work: Work) -> Iterator[Came]:
    """A packet's lines, read, with what they were read from."""
    source, records = packet.records()
    return (Came(work.read(raw.decode(), place_of(source, at)), raw) for at, raw in records)


def _of_part(
    key: tuple[str, str, str], part: Part, of_all: set[str], keep: bool
) -> Iterator[Packed]:
    """A group's rows after a part, packed."""
    yield from _packed(key, False, **_without_group(part.rows, of_all))
    if keep and part.told:
        yield (*key, False, KEPT, 0, ipc(_kept(part.told)))
    if part.opened is not None:
        yield from _packed(key, True, **_without_group(part.opened, of_all))
        if keep:
            yield (*key, True, KEPT, 0, ipc(_kept(part.waiting, part.doubts)))


def _without_group(rows: dict[str, list[Row]], of_all: set[str]) -> dict[str, list[Row]]:
    """A quarantined line that belongs to all groups is none's; the table has it once."""
    aside = [{**r, "group": ""} if r["place"] in of_all else r for r in rows.get("quarantine", ())]
    return {**rows, "quarantine": aside}


def _counted(
    protocol: str | None, run: str | None, group: str | None, lines: int, set_aside: int = 0
) -> Row:
    return {
        "protocol": protocol, "run": run, "group": group, "lines": lines, "shared": 0,
        "set_aside": set_aside, "seconds": 0.0,
    }  # fmt: skip


def _packed(
    key: tuple[str | None, str | None, str | None], opened: bool, **rows: Sequence[Row]
) -> Iterator[Packed]:
    """Rows of tables, packed."""
    for table, some in rows.items():
        if not some:
            continue
        lines = sum(row["lines"] for row in some) if table == "counted" else 0
        yield (*key, opened, table, lines, ipc(filled(table, some)))


def _kept(came: Sequence[Came], doubts: Sequence[str] = ()) -> pa.Table:
    """Lines; and what is missing among them, as rows that are nowhere."""
    places = [*(one.line.place for one in came), *(None for _ in doubts)]
    raws = [*(one.raw for one in came), *(why.encode() for why in doubts)]
    return pa.Table.from_pydict({"place": places, "raw": raws}, schema=_KEPT_ARROW)


def _unpacked(payload: bytes) -> list[Row]:
    rows: list[Row] = pa.ipc.open_stream(payload).read_all().to_pylist()
    return rows


# ── From packed rows to tables ──────────────────────────────────────────────────────────────


def unpack(batches: Iterable[pa.RecordBatch], later: bool) -> Iterator[pa.RecordBatch]:
    """
    Packed rows as rows of all tables.

    `later`: lines are to be replayed, but not yet; each group is told so.
    """
    out = Outgoing()
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("protocol", "table", "payload"))
        for protocol, table, payload in zip(*columns, strict=True):
            rows = _unpacked(payload)
            if later and table == "verdicts":
                rows.append(not_replayed(protocol, rows[0]["run"], rows[0]["group"], LATER))
            out.add({table: rows})
            yield from out.full()
    yield from out.rest()


def replay_groups(batches: Iterable[pa.RecordBatch], work: Work) -> Iterator[pa.RecordBatch]:
    """Kept lines, sorted by protocol, run, group and then as they were told: replayed."""
    out = Outgoing()
    columns = ("protocol", "run", "group", "payload")
    rows = (
        row
        for batch in batches
        for row in zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
    )
    for key, own in groupby(rows, key=itemgetter(0, 1, 2)):
        lines: list[Any] = []
        doubts: list[str] = []
        for *_, payload in own:
            for row in _unpacked(payload):
                if row["place"] is None:
                    doubts.append(row["raw"].decode())
                elif len(lines) <= REPLAYED_MOST:
                    lines.append(work.read(row["raw"].decode(), row["place"]))
        _replay(out, key, lines, doubts)
        yield from out.full()
    yield from out.rest()


def _replay(
    out: Outgoing, key: tuple[str, str, str], lines: Sequence[Any], doubts: Sequence[str]
) -> None:
    """One group's lines, replayed in the spec."""
    protocol, run, group = key
    if len(lines) > REPLAYED_MOST:
        why = f"more than {REPLAYED_MOST:,} lines"
        out.add({"verdicts": [not_replayed(*key, why)]})
        return
    rows: dict[str, list[Row]] = {}
    doubted = doubted_in(lines)
    add_replay(rows, auditors()[protocol], run, group, lines, doubts, doubted=doubted)
    out.add(rows)
