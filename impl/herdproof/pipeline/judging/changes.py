"""
Tables and figures of a group: the changes of the contract's fields, at the times of the lines.

Nothing is read a second time: who fills the fields for the judge is listened to (`Observed.hears`).
What the contract has no field for (that a rebalance begins or fails, a commit is refused, when a
lease ends, how a member went) is told by who reads the lines, as they are read (`Tells`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from msgspec import Struct

from herdproof.pipeline.judging.figures import FIGURES
from herdproof.pipeline.judging.stories import Stories
from herdproof.pipeline.judging.unread import (
    FOR_EVER,
    READER,
    SILENT,
    UNASSIGNED,
    Stretch,
    UnreadPartitions,
)
from herdproof.pipeline.spark.tables import Row, Rows
from herdspec.check.observation.entries import Entry
from herdspec.check.observation.inconclusive import (
    UNKNOWN,
    Inconclusive,
    as_told,
    is_lost,
    possible,
)
from herdspec.check.observation.observed import Observed
from herdspec.protocols.contract.spec import Stage

SECOND = 1_000_000_000
Member = Any
Partition = tuple[str, str]


class GenerationProgress(Struct, kw_only=True):
    """The generation that is being made, or is the present one."""

    epoch: int | None
    coordinator: str | None
    begun_ns: int | None
    generation: int | None = None
    written_ns: int | None = None
    settled_ns: int | None = None
    members: int | None = None
    partitions: int | None = None


class Interval(Struct, kw_only=True):
    """A member's interval of a partition that has not ended."""

    epoch: int | None
    generation: int | None
    from_ns: int
    from_offset: int | None
    to_offset: int | None = None
    known: bool = True
    gone_ns: int | None = None
    """When its coordinator counted its member as gone."""


class Changes:
    """Changes in one group, as rows."""

    def __init__(self, run: str, group: str, seen: Observed) -> None:
        self._who = {"run": run, "group": group}
        self._seen = seen
        self._entries = seen.entries
        self.stories = Stories()
        self._rows: Rows = {}
        self._line: Any = None
        self._open: GenerationProgress | None = None
        self._writer: tuple[str | None, int | None] | None = None
        """Who has written the next owners, and in which epoch, where that is told."""
        self._intervals: dict[Member, dict[Partition, Interval]] = {}
        self._held: dict[Partition, int] = {}
        """Number of intervals of a partition that have not ended."""
        self._ended_ns: dict[Partition, int] = {}
        """When the last interval ended of a partition that nobody has."""
        self.unread = UnreadPartitions()
        self._suspects: dict[Member, None] = {}
        """Members of whom it was not known, at some time, what they read."""
        self._ends: dict[Member, tuple[int, str, int | None, int]] = {}
        """
        Of a member that ceases to consume: when its lease ends, how else it ceases, since when it
        is silent, and when that was told.
        """
        self._names: dict[Member, tuple[str | None, str]] = {}
        """By member, its registration and its consumer."""
        self._joined: dict[Member, int] = {}
        self._how = "deposed"
        self._heard: set[Member] = set()
        """Members of whom somebody has told whether they consume."""
        self._downtime_ns = 0
        self._counts = dict.fromkeys(
            (name for name, figure in FIGURES.items() if not figure.each), 0.0
        )
        self._first_ns: int | None = None
        self.last_ns = 0
        self._listen()

    def _listen(self) -> None:
        self._hears: dict[str, Callable[[Any, Any, Any], None]] = {
            "consumes": self._consumes, "position": self._position, "live": self._live,
            "stage": self._stage, "generation": self._generation, "known": self._known,
        }  # fmt: skip
        if "consumes" not in self._entries:
            self._hears |= {"owner": self._owner, "committed": self._committed}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hears"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._listen()

    def at(self, line: Any) -> None:
        """Take a line as the one that tells all that is told from now on."""
        self._line = line
        if line.time_ns > self.last_ns:
            self.last_ns = line.time_ns
            if self._first_ns is None:
                self._first_ns = line.time_ns

    def drain(self) -> Rows:
        """The rows since the last time; of members that are dropped nothing more will be told."""
        members = self._seen.domains.get("Member", {})
        for m in [m for m in self._names if m not in members and m not in self._intervals]:
            for of in (self._names, self._ends, self.stories.kept):
                of.pop(m, None)
        for m in [m for m in self._suspects if m not in members]:
            del self._suspects[m]
        self._heard.intersection_update(members)
        rows, self._rows = self._rows, {}
        return rows

    def row(self, table: str, **values: Any) -> None:
        """A row of a table."""
        self._rows.setdefault(table, []).append({**self._who, **values})

    def _figure(self, name: str, value: float, time_ns: int, about: str) -> None:
        unit = FIGURES[name].unit
        self.row("figures", name=name, time_ns=time_ns, about=about, value=value, unit=unit)

    # ── What the contract has no field for ──────────────────────────────────────────────────

    def named(self, member: Member, registration: str, consumer: str) -> None:
        """Who a member is."""
        self._names[member] = registration, consumer

    def begins(self, epoch: int, since_ns: int = 0) -> None:
        """A rebalance begins, or has begun at that time."""
        self._counts["rebalances"] += 1
        self._end("superseded")
        begun_ns = since_ns or self._line.time_ns
        node = self._line.node or None
        self._open = GenerationProgress(epoch=epoch or None, coordinator=node, begun_ns=begun_ns)

    def has_begun(self) -> None:
        """A rebalance has begun at some time, as its outcome shows."""
        self._counts["rebalances"] += 1

    def fails(self) -> None:
        """The rebalance has failed."""
        self._counts["rebalances_failed"] += 1
        self._end("failed")

    def writes(self, node: str, epoch: int) -> None:
        """Who has written the next owners."""
        self._writer = node, epoch

    def ceases(self, member: Member, until_ns: int, how: str, silent_ns: int | None = None) -> None:
        """
        A member consumes no more, or its lease was over before that.

        `silent_ns`: when it was heard last, if it has not said itself that it stopped.
        """
        self._ends[member] = until_ns, how, silent_ns, self._line.time_ns

    def goes(self, how: str) -> None:
        """Note the way in which a member went that is counted as one no more."""
        self._how = how

    def commits(
        self, partition: Partition, offset: int | None, outcome: str, *, epoch: int = 0,
        generation: int | None = None, consumer: str | None = None,
    ) -> None:  # fmt: skip
        """An offset was taken, or not; None: that of a partition is stored no more."""
        topic, number = partition
        self.row(
            "commits", topic=topic, partition=number, offset=offset, consumer=consumer,
            epoch=epoch or None, generation=generation, time_ns=self._line.time_ns,
            outcome=outcome,
        )  # fmt: skip
        if outcome == "refused":
            self._counts["commits_refused"] += 1
        stored = self._entries["committed"][partition]
        if outcome not in ("accepted", "stored") or isinstance(stored, Inconclusive):
            return
        if offset is not None and offset + 1 < stored:
            self._counts["commit_regressions"] += 1
            behind = stored - offset - 1
            self._figure("commit_regression", behind, self._line.time_ns, "-".join(partition))

    # ── Changes ─────────────────────────────────────────────────────────────────────────────

    def hears(self, changed: Collection[tuple[str, Any, Any]], refined: Collection[Entry]) -> None:
        """A step of the fields, and what has become known with it."""
        if self._line is None:
            return
        for field, key in refined:
            if field == "consumes":
                self._is_known(key)
        self.stories.keep(self._line, changed, self._entries)
        for field, key, old in changed:
            listener = self._hears.get(field)
            if listener is not None:
                listener(key, old, self._entries[field][key])

    def _consumes(self, key: tuple[Member, Partition], old: Any, new: Any) -> None:
        m, p = key
        self._heard.add(m)
        if as_told(new) is True and as_told(old) is not True:
            self._begin(m, p)
        elif as_told(new) is False and as_told(old) is True:
            self._cease(m, p)

    def _told(self, field: str, key: Any) -> Any:
        """An entry as it was told last, by whom it is told of."""
        return as_told(self._entries[field][key]) if field in self._entries else UNKNOWN

    def _begin(self, m: Member, p: Partition) -> None:
        line, at = self._line, self._told("position", (m, p))
        offset = at - 1 if not is_lost(at) and at > 0 else None
        self._redelivers(p, offset)
        ended_ns = self._ended_ns.pop(p, None)
        if ended_ns is not None and not self._held.get(p):
            waited = max(0, line.time_ns - ended_ns)
            self._downtime_ns += waited
            self._figure("partition_downtime_s", waited / SECOND, line.time_ns, "-".join(p))
        self._is_read(p)
        self._opens(m, p, offset, known=True)

    def _opens(self, m: Member, p: Partition, offset: int | None, *, known: bool) -> None:
        line = self._line
        self._intervals.setdefault(m, {})[p] = Interval(
            epoch=line.epoch or None, generation=line.generation or None, from_ns=line.time_ns,
            from_offset=offset, to_offset=offset, known=known,
        )  # fmt: skip
        self._held[p] = self._held.get(p, 0) + 1

    def _redelivers(self, p: Partition, offset: int | None) -> None:
        """It begins with what was finished already, as far as is told."""
        finished = self._told("finished", p)
        if offset is None or is_lost(finished) or offset + 1 >= finished:
            return
        self._counts["redelivered_total"] += finished - offset - 1
        self._figure("redelivered", finished - offset - 1, self._line.time_ns, "-".join(p))

    def _position(self, key: tuple[Member, Partition], _: Any, new: Any) -> None:
        m, p = key
        at = as_told(new)
        interval = self._intervals.get(m, {}).get(p)
        if interval is None or is_lost(at) or at == 0 or interval.from_ns == self._line.time_ns:
            return
        if interval.from_offset is None:
            interval.from_offset = at - 1
        interval.to_offset = at - 1

    def _cease(self, m: Member, p: Partition) -> None:
        interval = self._intervals.get(m, {}).pop(p, None)
        if interval is None:
            return
        if not self._intervals[m]:
            del self._intervals[m]
        now = self._line.time_ns
        until_ns, how, silent_ns, told_ns = self._ends.get(m, (now, "stopped", None, now))
        how = "lease_over" if until_ns < now else how
        to_ns = max(interval.from_ns, min(now, until_ns))
        self._row_of(m, p, interval, to_ns, how)
        self._held[p] -= 1
        if not self._held[p]:
            self._ended_ns[p] = to_ns
            self._is_unread(p, m, interval.from_ns, silent_ns, to_ns)
            if told_ns != now:
                self.unread.must_be_read(p, 0)  # nobody has told when it ceased
        if interval.gone_ns is not None and to_ns > interval.gone_ns:
            self._zombie(m, interval.gone_ns, to_ns)

    def _row_of(
        self, m: Member, p: Partition, interval: Interval, to_ns: int | None, how: str
    ) -> None:
        registration, consumer = self._names.get(m, (None, m[0]))
        self.row(
            "ownership", topic=p[0], partition=p[1], consumer=consumer, member=registration,
            epoch=interval.epoch, generation=interval.generation, from_ns=interval.from_ns,
            to_ns=to_ns, from_offset=interval.from_offset, to_offset=interval.to_offset,
            ended=how, known=interval.known,
        )  # fmt: skip

    def _zombie(self, m: Member, gone_ns: int, to_ns: int) -> None:
        """Note for how long it could deliver after it was counted as gone; once for all it had."""
        self._counts["zombies"] += 1
        registration, consumer = self._names.get(m, (None, m[0]))
        self._figure("zombie_s", (to_ns - gone_ns) / SECOND, to_ns, registration or consumer)
        for other in self._intervals.get(m, {}).values():
            other.gone_ns = None

    def _is_known(self, key: tuple[Member, Partition]) -> None:
        """Nothing has happened, but it is known (again) whether a member consumes."""
        m, p = key
        self._heard.add(m)
        value, is_open = self._entries["consumes"][key], p in self._intervals.get(m, {})
        if p in self.unread.open and not self._may_be_read(p):
            self.unread.is_sure(p, self._line.time_ns)
        if as_told(value) is True and not is_open:
            self.unread.doubt(p, 0)
            self._is_read(p)
            self._opens(m, p, None, known=False)
        elif as_told(value) is False and is_open:
            self._cease(m, p)
            self.unread.must_be_read(p, 0)  # nobody knows since when

    # ── Where nobody tells who consumes: by assignment ───────────────────────────────────────

    def owns(self, partition: Partition, member: Member | None) -> None:
        """A partition is a member's, as is found: since when, nobody knows."""
        self._owner(partition, None, member, known=False)

    def _owner(self, p: Partition, _: Any, new: Any, *, known: bool = True) -> None:
        """A partition is another member's, or nobody's, by what is stored."""
        m, now = as_told(new), self._line.time_ns
        if is_lost(m):
            return
        for other in [o for o, own in self._intervals.items() if p in own and o != m]:
            self._row_of(other, p, self._intervals[other].pop(p), now, "assigned")
        if m is not None and p not in self._intervals.setdefault(m, {}):
            at, generation = self._told("committed", p), self._told("generation", ())
            offset = at - 1 if not is_lost(at) and at > 0 else None
            self._intervals[m][p] = Interval(
                epoch=self._writer[1] if self._writer is not None else None,
                generation=None if is_lost(generation) else generation,
                from_ns=now, from_offset=offset, to_offset=offset, known=known,
            )  # fmt: skip

    def _committed(self, p: Partition, _: Any, new: Any) -> None:
        """Extend the owner's interval to the offset that is committed."""
        at, owner = as_told(new), self._told("owner", p)
        if not is_lost(at) and not is_lost(owner) and p in self._intervals.get(owner, {}):
            self._intervals[owner][p].to_offset = at - 1 if at else None

    def _live(self, m: Member, _: Any, new: Any) -> None:
        now = self._line.time_ns
        if as_told(new) is True and m not in self._joined:
            self._joined[m] = now
            self._counts["members_joined"] += 1
            self._has_joined(m)
        elif as_told(new) is False and m in self._joined:
            how, self._how = self._how, "deposed"
            self._goes(m, now, how)

    def _goes(self, m: Member, left_ns: int | None, how: str) -> None:
        registration, consumer = self._names.get(m, (None, m[0]))
        self.row(
            "memberships", member=registration, consumer=consumer, joined_ns=self._joined.pop(m),
            left_ns=left_ns, how=how,
        )  # fmt: skip
        if left_ns is None:
            return
        if how != "deposed":  # which its coordinator does not count as a departure
            self._counts["members_left"] += 1
            for interval in self._intervals.get(m, {}).values():
                interval.gone_ns = interval.gone_ns or left_ns

    # ── Without a reader ────────────────────────────────────────────────────────────────────

    def _is_unread(
        self, p: Partition, m: Member, begun_ns: int, silent_ns: int | None, to_ns: int
    ) -> None:
        """Its last reader has ceased, as far as is told; or it was heard no more."""
        _, consumer = self._names.get(m, (None, m[0]))
        if silent_ns is None:
            self.unread.begin(p, to_ns, to_ns, READER, (consumer,))
        else:  # who was heard after its lease has renewed that, in lines that are not there
            sure_ns = to_ns if silent_ns <= to_ns else FOR_EVER
            self.unread.begin(p, max(begun_ns, silent_ns), sure_ns, SILENT, (consumer,))
        if self._may_be_read(p):
            self.unread.doubt(p, 0)

    def _known(self, p: Partition, _: Any, new: Any) -> None:
        if as_told(new) is True and self._joined:
            self._awaits_a_reader(p)

    def _has_joined(self, m: Member) -> None:
        """A member has come; if it is the first, somebody is to read what there is."""
        if m not in self._heard and "consumes" in self._entries:
            self._suspects[m] = None
        if len(self._joined) == 1 and "known" in self._entries:
            for p, value in [*self._entries["known"].items()]:
                if as_told(value) is True:
                    self._awaits_a_reader(p)

    def _awaits_a_reader(self, p: Partition) -> None:
        now = self._line.time_ns
        there = "consumes" in self._entries and p not in self.unread.open
        if there and not self._held.get(p) and self._is_wanted(p) and not self._may_be_read(p):
            self.unread.begin(p, now, now, UNASSIGNED)

    def _is_wanted(self, p: Partition) -> bool:
        """True if a member has subscribed to the partition."""
        interest = self._entries.get("interest")
        return interest is not None and any(as_told(interest[m, p]) is True for m in self._joined)

    def _suspect(self) -> None:
        """Who may read something, for all that is known: of whom one entry is lost, all are."""
        consumes = self._entries.get("consumes")
        p = next(iter(self._seen.domains.get("Partition", ())), None)
        if consumes is not None and p is not None:
            members = self._seen.domains["Member"]
            self._suspects.update((m, None) for m in members if is_lost(consumes[m, p]))

    def _may_be_read(self, p: Partition) -> bool:
        """True if there is somebody who may read the partition, for all that is known."""
        consumes = self._entries["consumes"]
        return any(is_lost(consumes[m, p]) for m in self._suspects)

    def _is_read(self, p: Partition) -> None:
        """Somebody reads it."""
        self._row_unread(p, self.unread.end(p, self._line.time_ns), is_open=False)

    def _row_unread(self, p: Partition, parts: list[Stretch], *, is_open: bool) -> None:
        if not parts:
            return
        since_ns, until_ns = parts[0].from_ns, parts[-1].until_ns
        for part in parts:
            ends = not is_open or part is not parts[-1]
            self.row(
                "unread", topic=p[0], partition=p[1], from_ns=part.from_ns,
                until_ns=part.until_ns if ends else None,
                seconds=(part.until_ns - part.from_ns) / SECOND, why=part.why, who=part.who,
                certain=part.certain, since_ns=since_ns, whole_s=(until_ns - since_ns) / SECOND,
            )  # fmt: skip

    # ── Generations ─────────────────────────────────────────────────────────────────────────

    def _generation(self, _key: Any, _old: Any, new: Any) -> None:
        if is_lost(new):
            return
        node, epoch = self._writer or (self._line.node or None, self._line.epoch or None)
        self._writer = None
        own = self._open
        if own is None or own.coordinator != node or own.generation is not None:
            self._end("superseded")
            own = self._open = GenerationProgress(epoch=epoch, coordinator=node, begun_ns=None)
        own.epoch, own.generation, own.written_ns = epoch, as_told(new), self._line.time_ns
        own.members = sum(as_told(v) is True for v in self._entries["live"].values())
        owners = self._entries["owner"].values()
        own.partitions = sum(as_told(m) is not None for m in owners)

    def _stage(self, _key: Any, _old: Any, new: Any) -> None:
        own, stages = self._open, possible(as_told(new)) or ()
        if Stage.STABLE not in stages or own is None or own.generation is None:
            return
        own.settled_ns = self._line.time_ns
        if own.begun_ns is not None:
            self._figure(
                "rebalance_latency_s", (own.settled_ns - own.begun_ns) / SECOND, own.settled_ns,
                f"generation {own.generation}",
            )  # fmt: skip
        self._end("settled")

    def _end(self, outcome: str) -> None:
        own, self._open = self._open, None
        if own is not None:
            told = {name: getattr(own, name) for name in own.__struct_fields__}
            self.row("generations", **told, outcome=outcome)

    # ── Doubt, and the end ──────────────────────────────────────────────────────────────────

    def lose(self) -> None:
        """Lines are missing: of what is not known any more, nobody knows when it ended."""
        self._ended_ns.clear()
        self._suspect()
        for p in [p for p in self.unread.open if self._may_be_read(p)]:
            self.unread.doubt(p, self.last_ns)
        for m, own in self._intervals.items():
            for p, interval in own.items():
                if is_lost(self._told("consumes", (m, p))):
                    interval.known = False

    def close(self) -> None:
        """Nothing more comes: what is open, and the figures of the whole group."""
        self._end("open")
        for p in sorted(self.unread.open):
            self._row_unread(p, self.unread.end(p, self.last_ns), is_open=True)
        for m in sorted(self._joined, key=repr):
            self._goes(m, None, "open")
        for m in sorted(self._intervals, key=repr):
            for p, interval in sorted(self._intervals[m].items()):
                self._row_of(m, p, interval, None, "open")
        if "generation" in self._entries:
            self._rows.setdefault("figures", []).extend(self._totals())

    def _totals(self) -> Iterator[Row]:
        lived_ns = self.last_ns - (self._first_ns or 0)
        churn = self._counts["members_joined"] + self._counts["members_left"]
        values: dict[str, float | None] = {**self._counts}
        values["partition_downtime_total_s"] = self._downtime_ns / SECOND
        values["churn"] = churn * 60 * SECOND / lived_ns if lived_ns else None
        values["redelivered_total"] = values["redelivered_total"] or None  # see FIGURES
        if not self._heard.issuperset(self._seen.domains.get("Member", ())):
            values |= dict.fromkeys(OF_CONSUMERS)
        for name, value in values.items():
            unit = FIGURES[name].unit
            yield {**self._who, "name": name, "time_ns": None, "about": None, "value": value,
                   "unit": unit}  # fmt: skip


OF_CONSUMERS = ("zombies", "redelivered_total", "partition_downtime_total_s")
"""Figures that nobody can see where a member does not tell whether it consumes."""
