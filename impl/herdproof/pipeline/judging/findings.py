"""What an audit of one group has found so far: rows, violations with their stories, doubts."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from functools import singledispatch
from heapq import nlargest
from typing import Any

from herdproof.pipeline.judging import events as e
from herdproof.pipeline.judging.figures import FIGURES
from herdproof.pipeline.spark.tables import Row, Rows
from herdproof.protocols.sentences import Sentence

SENTENCES: Mapping[str, str] = {sentence.name: sentence.value for sentence in Sentence}
"""The contract: by name, what is promised."""

_CONSUMERS_TELL = frozenset(
    {
        "EXCLUSIVE", "FENCED_COMMAND", "COMMANDS_NOBODY", "NOTHING_SKIPPED", "ONLY_FINISHED",
        "STORED_FIRST",
    }
)  # fmt: skip

TOLD_BY: Mapping[str, Collection[str]] = {
    "consumer": _CONSUMERS_TELL,
    "coordinator": SENTENCES.keys() - {"EXCLUSIVE", "FENCED_COMMAND"},
    "": SENTENCES.keys(),
}
"""By role, the sentences that cannot be judged without what those of this role tell."""

LONGEST_STORY = 16
"""So many events tell how a sentence came to be violated."""

KEPT = 8
"""So many events are kept of each partition, member and coordinator."""

Key = str | e.Partition
"""Whom an event is about: a partition, a consumer or member, or the group ("")."""


class Findings:
    """Rows by table; `checked` counts, by sentence, the events that were held against it."""

    def __init__(self, run: str, group: str, protocol: str, observable: Mapping[str, str]) -> None:
        self.run = run
        self.group = group
        self.protocol = protocol
        self.observable = dict(observable)
        self.checked = dict.fromkeys(SENTENCES, 0)
        self.violated: dict[str, int] = {}
        self.doubts: dict[str, str] = {}
        """By sentence, why it is not known whether it holds."""
        self._blind: Counter[str] = Counter()
        """Sentences that nothing that is seen now can violate for sure: for how many reasons."""
        self._rows: Rows = {}
        self._kept: dict[Key, deque[tuple[int, e.Event]]] = {}
        self._number = 0

    def row(self, table: str, **values: Any) -> None:
        """A row of a table."""
        self._rows.setdefault(table, []).append(
            {"run": self.run, "group": self.group, **values},
        )

    def figure(
        self, name: str, value: float, time_ns: int | None = None, about: str | None = None
    ) -> None:
        """A measured value, one of `FIGURES`."""
        unit = FIGURES[name].unit
        self.row("figures", name=name, time_ns=time_ns, about=about, value=value, unit=unit)

    def drain(self) -> Rows:
        """The rows since the last time."""
        rows, self._rows = self._rows, {}
        return rows

    # ── Sentences ───────────────────────────────────────────────────────────────────────────

    def violate(self, sentence: str, event: e.Event, told: str, about: Iterable[Key] = ()) -> None:
        """A sentence is violated, as an event shows."""
        if self.observable.get(sentence, "not promised") or self._blind[sentence]:
            return
        self.violated[sentence] = self.violated.get(sentence, 0) + 1
        self.row(
            "violations", property=sentence, sentence=SENTENCES[sentence], time_ns=event.time_ns,
            place=event.place, told=told, story=self.story(event, about),
        )  # fmt: skip

    def doubt(self, why: str, sentences: Collection[str] = SENTENCES.keys()) -> None:
        """Whether these sentences hold is not known."""
        for sentence in sentences:
            self.doubts.setdefault(sentence, why)

    def blind(self, why: str, sentences: Collection[str]) -> None:
        """From now on, nothing that is seen violates these sentences for sure."""
        self.doubt(why, sentences)
        self._blind.update(sentences)

    def sees(self, sentences: Collection[str]) -> None:
        """For one reason less, these sentences can be violated again."""
        self._blind.subtract(sentences)

    def verdicts(self) -> list[Row]:
        """What each sentence that the protocol promises came to."""
        found: list[Row] = []
        for sentence in (s for s in SENTENCES if s in self.observable):
            verdict, why = self._verdict(sentence)
            found.append(
                {
                    "run": self.run, "group": self.group, "protocol": self.protocol,
                    "property": sentence, "verdict": verdict, "why": why,
                    "checked": self.checked[sentence],
                }
            )  # fmt: skip
        return found

    def _verdict(self, sentence: str) -> tuple[str, str | None]:
        if why := self.observable[sentence]:
            return "not observable", why
        if sentence in self.violated:
            count = self.violated[sentence]
            return "violated", "once" if count == 1 else f"{count} times"
        if sentence in self.doubts:
            return "unknown", self.doubts[sentence]
        if not self.checked[sentence]:
            return "not observable", "nothing happened that it speaks of"
        return "holds", None

    # ── Stories ─────────────────────────────────────────────────────────────────────────────

    def note(self, event: e.Event, *about: Key) -> None:
        """Keep an event for a story about these."""
        self._number += 1
        for key in about:
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = deque(maxlen=KEPT)
            kept.append((self._number, event))

    def forget(self, *about: Key) -> None:
        """There will be no more stories about these."""
        for key in about:
            self._kept.pop(key, None)

    def story(self, last: e.Event, about: Iterable[Key]) -> list[str]:
        """The last events about these and about the group, and what happened then."""
        of: dict[int, e.Event] = {}
        for key in ("", *about):
            of.update(self._kept.get(key, ()))
        kept = [of[number] for number in sorted(nlargest(LONGEST_STORY, of))]
        if last not in kept:
            kept.append(last)
        return [shown(event) for event in kept]


def name_of(partition: e.Partition) -> str:
    """A partition as people write it."""
    return f"{partition[0]}-{partition[1]}"


def shown(event: e.Event) -> str:
    """An event of a story: `time_ns|from|to|what`."""
    who, whom, what = (part.replace("|", "¦") for part in parts(event))
    return f"{event.time_ns}|{who}|{whom}|{what}"


STORE = "store"
"""Who keeps generations and offsets: ZooKeeper, or a topic."""


@singledispatch
def parts(event: e.Event) -> tuple[str, str, str]:
    """Who does it, whom it concerns, what it is."""
    node = event.node or ""
    return node, node, type(event).__name__


@parts.register
def _(event: e.ProcessStarted) -> tuple[str, str, str]:
    return event.node or "", event.node or "", f"starts ({event.role})"


@parts.register
def _(event: e.Elected) -> tuple[str, str, str]:
    return STORE, event.node or "", f"coordinates in epoch {event.epoch}"


@parts.register
def _(event: e.Deposed) -> tuple[str, str, str]:
    return event.node or "", event.node or "", "coordinates no more"


@parts.register
def _(event: e.Wrote) -> tuple[str, str, str]:
    return event.node or "", STORE, f"a write of epoch {event.epoch} is accepted"


@parts.register
def _(event: e.Joined) -> tuple[str, str, str]:
    return event.consumer, event.node or "", f"is accepted as {event.member}"


@parts.register
def _(event: e.Left) -> tuple[str, str, str]:
    return event.consumer, event.node or "", f"{event.member} is counted as gone ({event.how})"


@parts.register
def _(event: e.Rebalance) -> tuple[str, str, str]:
    return event.node or "", event.node or "", "a rebalance begins"


@parts.register
def _(event: e.Assigned) -> tuple[str, str, str]:
    owners = ", ".join(f"{name_of(p)} {member}" for p, member in event.owners)
    what = f"generation {event.generation} of epoch {event.epoch}: {owners or 'nobody'}"
    return event.node or "", STORE, what


@parts.register
def _(event: e.Settled) -> tuple[str, str, str]:
    return event.node or "", event.node or "", f"generation {event.generation} is stable"


@parts.register
def _(event: e.Unneeded) -> tuple[str, str, str]:
    what = f"generation {event.generation} is as it should be"
    return event.node or "", event.node or "", what


@parts.register
def _(event: e.RebalanceFailed) -> tuple[str, str, str]:
    return event.node or "", event.node or "", "the rebalance failed"


@parts.register
def _(event: e.Requested) -> tuple[str, str, str]:
    given = ", ".join(f"{name_of(p)} from {offset}" for p, offset in event.partitions)
    what = f"{event.what} of epoch {event.epoch}, generation {event.generation}"
    return event.node or "", event.consumer, f"{what}: {given}" if given else what


@parts.register
def _(event: e.Commanded) -> tuple[str, str, str]:
    return event.node or "", "", f"obeys a {event.what} of epoch {event.epoch}"


@parts.register
def _(event: e.Heard) -> tuple[str, str, str]:
    return event.node or "", "", f"has heard of epoch {event.epoch}"


@parts.register
def _(event: e.Began) -> tuple[str, str, str]:
    place = f"{name_of(event.partition)} from {event.offset}"
    return event.consumer, "", f"begins {place} in generation {event.generation}"


@parts.register
def _(event: e.Renewed) -> tuple[str, str, str]:
    return event.consumer, "", f"may deliver until {event.until_ns}"


@parts.register
def _(event: e.Ended) -> tuple[str, str, str]:
    return event.consumer, "", f"ends {name_of(event.partition)} ({event.how})"


@parts.register
def _(event: e.Reported) -> tuple[str, str, str]:
    return event.consumer, "", f"has finished {name_of(event.partition)} up to {event.offset}"


@parts.register
def _(event: e.Noted) -> tuple[str, str, str]:
    told = ", ".join(f"{name_of(p)} {offset}" for p, offset in event.partitions)
    return event.consumer, event.node or "", f"has finished up to {told}"


@parts.register
def _(event: e.Committed) -> tuple[str, str, str]:
    what = f"{event.offset} of {name_of(event.partition)}: {event.outcome}"
    if event.outcome in ("accepted", "refused"):
        return event.consumer or "", event.node or "", f"commits {what}"
    return event.node or event.consumer or "", STORE, f"stores {what}"


@parts.register
def _(event: e.Missing) -> tuple[str, str, str]:
    return event.node or "", event.node or "", f"missing: {event.why}"
