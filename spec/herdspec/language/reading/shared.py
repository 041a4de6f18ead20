"""
Shares translations between a spec and its variants, which differ in a few functions only.

A translation rests on the fields, which a variant has, too, on the methods that it inlined, and on
what it saw outside of the spec. It is kept together with these: where none of them is another one
by now, translating again would come to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from herdspec.language.outside import Seen
from herdspec.language.reading.expressions import Notes
from herdspec.language.reading.source import Function
from herdspec.language.types import Shape

T = TypeVar("T")


@dataclass(frozen=True)
class Translation:
    """A text's meaning, and what it rests on beside the fields."""

    meaning: Any
    inlined: frozenset[Function]
    seen: Mapping[Any, Seen]

    def holds_in(self, shape: Shape) -> bool:
        """Tells whether the text means the same in this shape, as things stand now."""
        lost = self.inlined.intersection(shape.replaced)
        return not lost and all(s.stands for s in self.seen.values())


def translated(shape: Shape, text: Hashable, notes: Notes, translate: Callable[[], T]) -> T:
    """
    The meaning of a text in a spec: as it is known from before, or else translated now.

    `notes` are those that `translate` makes while it does so.
    """
    known = [t for t in (shape.translations.get(text), shape.inherited.get(text)) if t]
    found = next((t for t in known if t.holds_in(shape)), None)
    if found is None:
        found = Translation(translate(), frozenset(notes.inlined), notes.seen)
    shape.translations[text] = found
    for key, seen in found.seen.items():
        shape.seen.setdefault(key, seen)
    meaning: T = found.meaning
    return meaning
