"""
Partitions that nobody reads: since when, for how long, and what stood in the way at each moment.

Whoever reads the lines says what stands in the way of the group (`stands`), whenever that changes;
an interval without a reader is cut into stretches where it did. What the lines do not say is
*unknown*; where nobody says anything of causes they are *not observable*.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from operator import attrgetter, itemgetter
from typing import NamedTuple

from msgspec import Struct

Partition = tuple[str, str]
FOR_EVER = 2**62

NOTHING = ""
"""Nothing stands in the way of the group: it is stable, as its coordinator sees it."""
ELECTION, ADMISSION, RETURN, LEASE = "election", "admission", "return", "lease"
STOP, START, REBALANCE, FAILURE = "stop", "start", "rebalance", "failure"
SILENT, READER, UNASSIGNED, NOBODY = "silent", "reader", "unassigned", "nobody"
UNKNOWN, NOT_OBSERVABLE = "unknown", "not observable"

CAUSES: Mapping[str, str] = {
    ELECTION: "no coordinator was heard to lead",
    ADMISSION: "consumers had sent their Registers, and no answer had come",
    RETURN: "the coordinator waited for consumers of the one before to come back",
    LEASE: "the coordinator waited for the lease of a member that was gone",
    STOP: "members had not answered their Stops",
    START: "members had not answered their Starts",
    REBALANCE: "the coordinator was at it: offsets and owners were written",
    FAILURE: "a rebalance had failed, and was to be tried again",
    SILENT: "its reader was not heard any more, and its coordinator had not acted on that",
    READER: "its reader had stopped by itself, and its coordinator had not acted on that",
    UNASSIGNED: "the group was stable, and it was given to nobody",
    NOBODY: "the group had no members",
    UNKNOWN: "the lines do not say it, or are missing",
    NOT_OBSERVABLE: "this source does not tell what a group waits for",
}
"""Causes, and what each says."""

MOMENTS = 128
"""The number of changes remembered of what stands in the way; older ones are unknown."""
NAMED = 3
"""The number of those who are waited for that are named."""


class Stands(Struct):
    """An obstacle to the group's reading, from a moment on."""

    time_ns: int
    why: str
    who: tuple[str, ...] = ()
    """Who is waited for; while it lasts, those who were last."""
    certain: bool = True


class UnreadInterval(Struct):
    """Since when a partition has no reader."""

    from_ns: int
    sure_ns: int
    """Until then who read it may still have done so."""
    at_first: str
    """Why nobody reads it as long as nothing stands in the way of the group …"""
    who: tuple[str, ...] = ()
    """… and who it is about."""
    doubts: list[tuple[int, int | None]] = []
    """From when until when (None: it lasts) somebody may have read it."""
    begun_ns: int = FOR_EVER
    """Since when somebody must have read it, who has not told so."""


class Stretch(NamedTuple):
    """A part of such an interval, with one cause."""

    from_ns: int
    until_ns: int
    why: str
    who: str | None
    certain: bool


class UnreadPartitions:
    """The intervals without a reader of one group's partitions."""

    def __init__(self) -> None:
        self._past: deque[Stands] = deque(maxlen=MOMENTS)
        self.open: dict[Partition, UnreadInterval] = {}

    # ── What stands in the way ──────────────────────────────────────────────────────────────

    def stands(
        self, time_ns: int, why: str, who: Collection[str] = (), *, certain: bool = True
    ) -> None:
        """From now on, this is in the way of whoever could read."""
        last = self._past[-1] if self._past else None
        if last is not None and (last.why, last.certain) == (why, certain):
            last.who = named(who) or last.who
            return
        since_ns = time_ns if last is None else max(time_ns, last.time_ns)
        self._past.append(Stands(since_ns, why, named(who), certain))

    def amend(
        self, since_ns: int, why: str, who: Collection[str] = (), *, certain: bool = True
    ) -> None:
        """It was this from a moment on, whatever was told since."""
        while self._past and self._past[-1].time_ns >= since_ns:
            self._past.pop()
        self.stands(since_ns, why, who, certain=certain)

    # ── Intervals ───────────────────────────────────────────────────────────────────────────

    def begin(
        self, p: Partition, from_ns: int, sure_ns: int, at_first: str, who: Collection[str] = ()
    ) -> None:
        """Nobody reads a partition from then on."""
        self.open.setdefault(p, UnreadInterval(from_ns, sure_ns, at_first, named(who), []))

    def doubt(self, p: Partition, since_ns: int) -> None:
        """Somebody may read it, from then on until `is_sure`."""
        own = self.open.get(p)
        if own is not None and not self.in_doubt(p):
            own.doubts.append((max(since_ns, own.from_ns), None))

    def may_be_read(self, p: Partition) -> None:
        """Somebody may read it who is not heard any more, and need not."""
        own = self.open.get(p)
        if own is not None:
            own.sure_ns = FOR_EVER

    def must_be_read(self, p: Partition, since_ns: int) -> None:
        """Somebody has begun to read it, who has not told so."""
        own = self.open.get(p)
        if own is not None:
            own.begun_ns = min(own.begun_ns, since_ns)

    def in_doubt(self, p: Partition) -> bool:
        """True if somebody may read the partition, for all that is known."""
        own = self.open.get(p)
        return own is not None and bool(own.doubts) and own.doubts[-1][1] is None

    def is_sure(self, p: Partition, time_ns: int) -> None:
        """It is known again that nobody does."""
        own = self.open.get(p)
        if own is not None and own.doubts and own.doubts[-1][1] is None:
            own.doubts[-1] = (own.doubts[-1][0], time_ns)

    def end(self, p: Partition, until_ns: int) -> list[Stretch]:
        """Somebody reads it again: what there was until then."""
        own = self.open.pop(p, None)
        return [] if own is None else self.stretches(own, until_ns)

    def stretches(self, own: UnreadInterval, until_ns: int) -> list[Stretch]:
        """An interval up to a moment, cut where its cause changed."""
        parts = _certain(own, _doubted(own, self._caused(own, until_ns), until_ns))
        found: list[Stretch] = []
        for part in parts:
            if part.from_ns >= part.until_ns:
                continue
            last = found[-1] if found else None
            if last is not None and (last.why, last.certain) == (part.why, part.certain):
                found[-1] = last._replace(until_ns=part.until_ns, who=part.who or last.who)
            else:
                found.append(part)
        return found

    def _caused(self, own: UnreadInterval, until_ns: int) -> Iterator[Stretch]:
        """The causes as they were told."""
        at_ns, at_first, past = own.from_ns, True, self._past
        begin = bisect_right(past, at_ns, key=attrgetter("time_ns"))
        now = past[begin - 1] if begin else Stands(at_ns, UNKNOWN if past else NOT_OBSERVABLE)
        for then in (*islice(past, begin, None), Stands(until_ns, NOTHING)):
            end_ns = min(then.time_ns, until_ns)
            if end_ns > at_ns:
                why, who = now.why, now.who
                if why != NOTHING:
                    at_first = False
                elif at_first:
                    why, who = own.at_first, own.who
                else:
                    why, who = UNASSIGNED, ()
                yield Stretch(at_ns, end_ns, why, ", ".join(who) or None, now.certain)
                at_ns = end_ns
            now = then


def _doubted(own: UnreadInterval, parts: Iterable[Stretch], until_ns: int) -> Iterator[Stretch]:
    """Stretches, unknown where somebody may have read it."""
    if not own.doubts and own.begun_ns >= until_ns:
        yield from parts
        return
    doubts = sorted((*own.doubts, (own.begun_ns, None)), key=itemgetter(0))
    for part in parts:
        at_ns = part.from_ns
        for since_ns, then_ns in doubts:
            begin = min(max(since_ns, at_ns), part.until_ns)
            end = max(begin, min(until_ns if then_ns is None else then_ns, part.until_ns))
            yield part._replace(from_ns=at_ns, until_ns=begin)
            yield Stretch(begin, end, UNKNOWN, None, True)
            at_ns = end
        yield part._replace(from_ns=at_ns)


def _certain(own: UnreadInterval, parts: Iterable[Stretch]) -> Iterator[Stretch]:
    """Stretches, uncertain as long as who read it may still have done so."""
    for part in parts:
        if own.sure_ns <= part.from_ns:
            yield part
            continue
        middle = min(own.sure_ns, part.until_ns)
        yield part._replace(until_ns=middle, certain=False)
        yield part._replace(from_ns=middle)


def named(who: Collection[str]) -> tuple[str, ...]:
    """Some of those who are waited for."""
    names, more = tuple(islice(who, NAMED)), len(who) - NAMED
    return (*names, f"{more} more") if more > 0 else names
