"""Stories of broken promises: the last changes of what each speaks of, told in sentences."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from enum import Enum
from operator import itemgetter
from typing import Any

from herdspec.check.observation.inconclusive import as_told, is_lost

LONGEST_STORY = 16
"""The most changes that tell how a promise came to be broken."""
KEPT = 8
"""The number of changes kept of each element of a sort, and of the group."""

GROUP = ()
"""Whom a change is about that is of no element."""


Change = tuple[int, int, str, str, Any, Any, Any]
"""Its number, when, the node that tells it; a field, the key of an entry, what it is, and was."""


def told_of(change: Change) -> str:
    """A change in a sentence; none, where what it is now is not known, or says nothing."""
    *_, field, key, value, _ = change
    value = as_told(value)
    if is_lost(value) or (field in OFTEN and not value):
        return ""
    shown = named(offset_of(field, value))
    sentence = SENTENCES.get((field, shown)) or SENTENCES.get((field, ""))
    each = [named(x) for x in elements(key)]
    return (sentence or f"{field} of {{keys}} is {{value}}").format(
        *each, value=shown, keys=", ".join(each)
    )


def with_former(change: Change, sentence: str) -> str:
    """A sentence of a change, and what was before it."""
    *_, field, _, _, old = change
    old = as_told(old)
    if is_lost(old) or old in (None, False):
        return sentence
    return f"{sentence} (was {named(offset_of(field, old))})"


def step_of(change: Change, sentence: str) -> str:
    """A step of a story: `time_ns|from|to|what`."""
    who, what = (text.replace("|", "¦") for text in (change[2], sentence))
    return f"{change[1]}|{who}||{what}"


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
    """The last changes of each element; of what changes all the time, the last of all."""

    def __init__(self) -> None:
        self.kept: dict[Any, deque[Change]] = {}
        self._often: deque[Change] = deque(maxlen=OFTEN_KEPT)
        self._number = 0

    def keep(
        self, line: Any, changed: Collection[tuple[str, Any, Any]],
        entries: Mapping[str, Mapping[Any, Any]],
    ) -> None:  # fmt: skip
        """Keep the changes at a line."""
        time_ns, node, kept = line.time_ns, line.node, self.kept
        self._number += 1
        for field, key, old in changed:
            change = (self._number, time_ns, node, field, key, entries[field][key], old)
            if field in OFTEN:
                self._often.append(change)
                continue
            for one in elements(key) or (GROUP,):
                known = kept.get(one)
                if known is None:
                    known = kept[one] = deque(maxlen=KEPT)
                known.append(change)

    def of(self, line: Any, about: Mapping[str, Any]) -> tuple[str, list[str]]:
        """The events at a line that broke a promise, and the steps that led to it."""
        whose = {*about.values()}
        often = [c for c in self._often if whose.intersection(elements(c[4]))]
        in_order = (GROUP, *about.values())  # a set's order differs from process to process
        every = {c[:5]: c for one in in_order for c in self.kept.get(one, ())}
        every |= {c[:5]: c for c in often[-KEPT:]}
        chosen = [every[name] for name in sorted(every, key=_FIRST)][-LONGEST_STORY:]
        told = [(change, sentence) for change in chosen if (sentence := told_of(change))]
        here = (line.time_ns, line.node)
        now = [with_former(change, text) for change, text in told if change[1:3] == here]
        story = [step_of(change, sentence) for change, sentence in told]
        if not now:
            story.append(step_of((0, line.time_ns, line.node, "", (), None, None), line.action))
        who = ", ".join(f"{name} {named(x)}" for name, x in about.items())
        happened = "; ".join(dict.fromkeys(now[-3:])) or line.action
        return f"for {who}: {happened}" if who else happened, story


_FIRST = itemgetter(0)
OFTEN_KEPT = 48
"""The number of last changes that are kept of what changes all the time."""
OFTEN = frozenset({"position", "finished", "reported", "committing", "accepted", "storing"})
"""Fields that change all the time."""
