"""How a promise came to be broken: the last changes of what it speaks of, told in sentences."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, NamedTuple

from herdspec.check.observation.doubt import as_told, is_lost

LONGEST_STORY = 16
"""So many changes tell how a promise came to be broken."""
KEPT = 8
"""So many changes are kept of each element of a sort, and of the group."""

GROUP = ()
"""Whom a change is about that is of no element."""


class Change(NamedTuple):
    """A field that has changed, at a line."""

    number: int
    time_ns: int
    node: str
    field: str
    key: Any
    value: Any
    old: Any

    @property
    def told(self) -> str:
        """In a sentence."""
        shown = named(offset_of(self.field, as_told(self.value)))
        sentence = SENTENCES.get((self.field, shown)) or SENTENCES.get((self.field, ""))
        each = [named(x) for x in elements(self.key)]
        return (sentence or f"{self.field} of {{keys}} is {{value}}").format(
            *each, value=shown, keys=", ".join(each)
        )

    @property
    def told_with_old(self) -> str:
        """In a sentence, with what was before."""
        if is_lost(self.old) or self.old in (None, False):
            return self.told
        return f"{self.told} (was {named(offset_of(self.field, self.old))})"

    @property
    def step(self) -> str:
        """As a step of a story: `time_ns|from|to|what`."""
        who, what = (text.replace("|", "¦") for text in (self.node, self.told))
        return f"{self.time_ns}|{who}||{what}"


SENTENCES: Mapping[tuple[str, str], str] = {
    ("term", "0"): "{0} coordinates no more",
    ("term", ""): "{0} coordinates in epoch {value}",
    ("epoch", ""): "epoch {value} begins",
    ("generation", ""): "generation {value} is written",
    ("owner", "None"): "{0} is nobody's",
    ("owner", ""): "{0} is {value}'s",
    ("live", "True"): "{0} is counted as a member",
    ("live", "False"): "{0} is counted as a member no more",
    ("informed", "True"): "{0} is known to have begun",
    ("informed", "False"): "{0} is not known to have begun",
    ("stage", ""): "the group is {value}",
    ("heeded", ""): "{0} follows epoch {value}",
    ("consumes", "True"): "{0} consumes {1}",
    ("consumes", "False"): "{0} consumes {1} no more",
    ("position", ""): "{0} is at {value} of {1}",
    ("finished", ""): "{0} is finished up to {value}",
    ("reported", ""): "{0} is heard to be at {value} of {1}",
    ("committing", ""): "{0} commits {value} of {1}",
    ("accepted", ""): "{value} of {0} is taken",
    ("storing", ""): "{value} of {0} is sent to be stored",
    ("committed", ""): "{value} of {0} is stored",
    ("known", ""): "{0} is known: {value}",
    ("token", ""): "{0} takes up epoch {value}",
    ("leads", "True"): "{0} believes that it leads",
    ("leads", "False"): "{0} leads no more",
    ("stale_write_accepted", "True"): "a write of a past epoch is accepted",
}
"""By field and value (or any), what a change says."""

OFFSETS = frozenset({
    "position", "finished", "reported", "committing", "accepted", "storing", "committed"
})  # fmt: skip
"""Fields that are offsets, in the contract one more than in Kafka: there 0 is none."""


def offset_of(field: str, value: Any) -> Any:
    """A value as it is called outside of the contract."""
    if field not in OFFSETS or value is None:
        return value
    return value - 1 if value else "nothing"


def elements(key: Any) -> tuple[Any, ...]:
    """The elements of a key: an element is a text, or a tuple of plain values."""
    if key == ():
        return ()
    return key if isinstance(key, tuple) and isinstance(key[0], tuple) else (key,)


def named(x: Any) -> str:
    """An element, or a value, as people write it."""
    if isinstance(x, Enum):
        return str(x.value)
    return "-".join(map(str, x)) if isinstance(x, tuple) else str(x)


class Stories:
    """The last changes of each element."""

    def __init__(self) -> None:
        self.kept: dict[Any, deque[Change]] = {}
        self._number = 0
        self._last: list[Change] = []
        """Those of the line in hand."""
        self._line: Any = None

    def keep(
        self, line: Any, changed: Collection[tuple[str, Any, Any]],
        entries: Mapping[str, Mapping[Any, Any]],
    ) -> None:  # fmt: skip
        """What has changed at a line."""
        if line is not self._line:
            self._line = line
            self._last = []
        for field, key, old in changed:
            value = as_told(entries[field][key])
            if is_lost(value) or (field in QUIET and not value):
                continue
            self._number += 1
            change = Change(self._number, line.time_ns, line.node, field, key, value, as_told(old))
            self._last.append(change)
            about = elements(key)
            for one in about[-1:] if field in OF_PARTITIONS else about or (GROUP,):
                kept = self.kept.get(one)
                if kept is None:
                    kept = self.kept[one] = deque(maxlen=KEPT)
                kept.append(change)

    def of(self, line: Any, about: Mapping[str, Any]) -> tuple[str, list[str]]:
        """What happened at a line that broke a promise, and the steps that led to it."""
        whose = {*about.values()}
        now = self._last if line is self._line else []
        ours = [c for c in now if whose.intersection(elements(c.key))] or now
        who = ", ".join(f"{name} {named(x)}" for name, x in about.items())
        happened = "; ".join(dict.fromkeys(c.told_with_old for c in ours[:3])) or line.action
        every = {c.number: c for one in (GROUP, *whose) for c in self.kept.get(one, ())}
        every |= {c.number: c for c in ours[:3]}
        story = [every[number].step for number in sorted(every)[-LONGEST_STORY:]]
        if not ours:
            story.append(f"{line.time_ns}|{line.node.replace('|', '¦')}||{line.action}")
        return f"for {who}: {happened}" if who else happened, story


OF_PARTITIONS = frozenset({"position", "reported", "committing"})
"""What changes often: kept with its partition alone."""
QUIET = frozenset({"reported", "committing", "storing", "position", "accepted"})
"""Of which nobody wants to know that it is no more."""
