"""Rows of a group of `__consumer_offsets`: generations, members, commits, what is measured."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from typing import Any

from herdproof.pipeline.judging.figures import FIGURES
from herdproof.pipeline.offsets import events as e
from herdproof.pipeline.offsets.records import Partition, name_of
from herdproof.pipeline.spark.tables import Rows

SECOND = 1_000_000_000

LONGEST_STORY = 16
"""So many events tell how a promise came to be broken."""

KEPT = 8
"""So many events are kept of each partition, and of the group."""


class OffsetsRows:
    """
    The rows of one group, from its events.

    What the log does not tell is no figure: a zero would say that it was looked for.
    """

    def __init__(self, run: str, group: str) -> None:
        self._who = {"run": run, "group": group}
        self._rows: Rows = {}
        self._counts: Counter[str] = Counter(
            dict.fromkeys(("rebalances", "members_joined", "members_left", "commit_regressions"), 0)
        )
        self._generation: dict[str, Any] | None = None
        """The generation that is being made, or is the present one."""
        self._members: dict[str, dict[str, Any]] = {}
        self._has: dict[tuple[str, Partition], dict[str, Any]] = {}
        self._ended_ns: dict[Partition, int] = {}
        """When the last one that had a partition, which nobody has, gave it up."""
        self._downtime_ns: int | None = None
        self._stored: dict[Partition, int] = {}
        self._first_ns: int | None = None
        self._last_ns = 0
        self._kept: dict[Partition | None, deque[tuple[int, e.Event]]] = {}
        self._number = 0

    def row(self, table: str, **values: Any) -> None:
        """A row of a table."""
        self._rows.setdefault(table, []).append({**self._who, **values})

    def drain(self) -> Rows:
        """The rows since the last time."""
        rows, self._rows = self._rows, {}
        return rows

    def take(self, event: e.Event) -> None:
        """The next event."""
        if self._first_ns is None:
            self._first_ns = event.time_ns
        if event.time_ns > self._last_ns:
            self._last_ns = event.time_ns
        self._note(event)
        if (hear := _HEARS.get(type(event))) is not None:
            hear(self, event)

    def _figure(self, name: str, value: float, time_ns: int | None = None, about: str = "") -> None:
        self.row(
            "figures", name=name, time_ns=time_ns, about=about or None, value=value,
            unit=FIGURES[name].unit,
        )  # fmt: skip

    # ── Members and generations ─────────────────────────────────────────────────────────────

    def _joined(self, event: e.Joined) -> None:
        self._counts["members_joined"] += 1
        self._members[event.member] = {
            "member": event.member, "consumer": event.consumer, "joined_ns": event.time_ns
        }  # fmt: skip

    def _left(self, event: e.Left) -> None:
        self._counts["members_left"] += 1
        member = self._members.pop(event.member)
        self.row("memberships", **member, left_ns=event.time_ns, how="unknown")

    def _rebalance(self, event: e.Rebalance) -> None:
        self._end("superseded")
        self._counts["rebalances"] += 1
        self._generation = {"begun_ns": event.time_ns}

    def _assigned(self, event: e.Assigned) -> None:
        """A classic group tells of a rebalance nothing but the generation that it made."""
        own = self._generation
        if own is None or "generation" in own:
            before = None if own is None else own["generation"]
            self._counts["rebalances"] += event.generation != before
            self._end("superseded")
            own = self._generation = {"begun_ns": None}
        own |= {
            "generation": event.generation, "written_ns": event.time_ns,
            "members": len(event.consumers), "partitions": len(event.owners),
        }  # fmt: skip

    def _settled(self, event: e.Settled) -> None:
        own = self._generation
        if own is None or own.get("generation") != event.generation or "settled_ns" in own:
            return
        own["settled_ns"] = event.time_ns
        if own["begun_ns"] is not None:
            took_s = (event.time_ns - own["begun_ns"]) / SECOND
            about = f"generation {event.generation}"
            self._figure("rebalance_latency_s", took_s, event.time_ns, about)
        self._end("settled")

    def _end(self, outcome: str) -> None:
        if self._generation is not None:
            self.row("generations", **self._generation, outcome=outcome)
            self._generation = None

    # ── Who has what ────────────────────────────────────────────────────────────────────────

    def _began(self, event: e.Began) -> None:
        p, now = event.partition, event.time_ns
        self._downtime_ns = self._downtime_ns or 0
        ended_ns = self._ended_ns.pop(p, None)
        if ended_ns is not None:
            waited = max(0, now - ended_ns)
            self._downtime_ns += waited
            self._figure("partition_downtime_s", waited / SECOND, now, name_of(p))
        self._has[event.consumer, p] = {
            "topic": p[0], "partition": p[1], "consumer": event.consumer, "member": event.member,
            "generation": event.generation, "from_ns": now, "known": True,
        }  # fmt: skip

    def _ends(self, event: e.Ended) -> None:
        p, now = event.partition, event.time_ns
        interval = self._has.pop((event.consumer, p), None)
        if interval is None:
            return
        self.row("ownership", **interval, to_ns=max(interval["from_ns"], now), ended="stopped")
        if all(p != other for _, other in self._has):
            self._ended_ns[p] = now

    def _unread(self, event: e.Unread) -> None:
        """Who has something may have something else."""
        del event
        self._ended_ns.clear()
        for interval in self._has.values():
            interval["known"] = False

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def _committed(self, event: e.Committed) -> None:
        p, offset = event.partition, event.offset
        self.row(
            "commits", topic=p[0], partition=p[1], offset=offset, time_ns=event.time_ns,
            outcome=event.outcome,
        )  # fmt: skip
        if event.outcome != "stored":
            return
        before = self._stored.pop(p, None)
        if offset is None:
            return
        self._stored[p] = offset
        if before is not None and offset < before:
            self._counts["commit_regressions"] += 1
            self._figure("commit_regression", before - offset, event.time_ns, name_of(p))

    # ── Stories ─────────────────────────────────────────────────────────────────────────────

    def _note(self, event: e.Event) -> None:
        """Keep an event, for a story about its partition, or about the group."""
        self._number += 1
        about: Partition | None = getattr(event, "partition", None)
        kept = self._kept.get(about)
        if kept is None:
            kept = self._kept[about] = deque(maxlen=KEPT)
        kept.append((self._number, event))

    def story(self, about: Iterable[Any]) -> list[str]:
        """The last events about these and about the group: `time_ns|from|to|what`."""
        of = {number: event for key in (None, *about) for number, event in self._kept.get(key, ())}
        return [shown(of[number]) for number in sorted(nlargest(LONGEST_STORY, of))]

    # ── The end ─────────────────────────────────────────────────────────────────────────────

    def close(self) -> Rows:
        """The last rows: what is open, and the figures of the whole group."""
        self._end("open")
        for name in sorted(self._members):
            self.row("memberships", **self._members[name], left_ns=None, how="open")
        for _, interval in sorted(self._has.items()):
            self.row("ownership", **interval, to_ns=None, ended="open")
        for name, count in self._counts.items():
            self._figure(name, count)
        lived_ns = self._last_ns - (self._first_ns or 0)
        if lived_ns:
            churn = self._counts["members_joined"] + self._counts["members_left"]
            self._figure("churn", churn * 60 * SECOND / lived_ns)
        if self._downtime_ns is not None:
            self._figure("partition_downtime_total_s", self._downtime_ns / SECOND)
        return self.drain()


_HEARS: Mapping[type[e.Event], Callable[[OffsetsRows, Any], None]] = {
    e.Committed: OffsetsRows._committed, e.Joined: OffsetsRows._joined, e.Left: OffsetsRows._left,
    e.Rebalance: OffsetsRows._rebalance, e.Assigned: OffsetsRows._assigned,
    e.Settled: OffsetsRows._settled, e.Began: OffsetsRows._began, e.Ended: OffsetsRows._ends,
    e.Unread: OffsetsRows._unread,
}  # fmt: skip
"""By event, what makes rows of it."""


def shown(event: e.Event) -> str:
    """An event of a story."""
    who, whom, what = (part.replace("|", "¦") for part in event.told())
    return f"{event.time_ns}|{who}|{whom}|{what}"
