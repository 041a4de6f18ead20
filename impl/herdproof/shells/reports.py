"""
The machinery of reports: events that a core has for its operators, as sentences in a log.

Each protocol has a vocabulary: the names of its events, their sentences and their gravity. A line
is the sentence; beside it stand the event's name, by which it is found and counted, and the details
as fields.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from herdproof.shells.logs import Value, fields


@dataclass(frozen=True)
class Vocabulary:
    """
    Names of one core's reports, and how they are told.

    >>> Vocabulary({"left": "{who} has left {group}"}).sentence("left", {"who": "c", "group": "g"})
    'c has left g'
    >>> Vocabulary({"read": "{groups:group} read"}).sentence("read", {"groups": 1})
    '1 group read'
    """

    sentences: Mapping[str, str]
    """By an event's name its sentence, with the details that it names in braces: {count:noun}."""
    levels: Mapping[str, int] | None = None
    """Gravity, by an event's name; INFO where it is not said."""

    def sentence(self, what: str, said: Mapping[str, object]) -> str:
        """A report as a sentence; one that has none is its name."""
        return self.sentences.get(what, what).format_map(_Details(said))

    def log(
        self, log: logging.Logger, what: str, group: str, details: Sequence[tuple[str, Value]]
    ) -> None:
        """Log a report, if its gravity is logged at all."""
        level = (self.levels or {}).get(what, logging.INFO)
        if not log.isEnabledFor(level):
            return
        said = dict(details)
        if group:
            said["group"] = group
        log.log(level, "%s", _Sentence(self, what, said), extra=fields(event=str(what), **said))


class _Details(dict[str, str]):
    """Details as a line shows them, each made when asked for; one that is not there is "?"."""

    def __init__(self, said: Mapping[str, object]) -> None:
        super().__init__()
        self._said = said

    def __missing__(self, name: str) -> str:
        return _Detail(printable(str(self._said.get(name, "?"))))


class _Detail(str):
    """A detail; formatted with a noun it is so many of that."""

    __slots__ = ()

    def __format__(self, noun: str) -> str:
        return f"{self!s} {noun}{'' if self == '1' else 's'}" if noun else str(self)


class _Sentence:
    """A report's sentence, made where it is written: many that are logged are not."""

    __slots__ = ("_said", "_vocabulary", "_what")

    def __init__(self, vocabulary: Vocabulary, what: str, said: Mapping[str, object]) -> None:
        self._vocabulary = vocabulary
        self._what = what
        self._said = said

    def __str__(self) -> str:
        return self._vocabulary.sentence(self._what, self._said)


def printable(text: str) -> str:
    r"""
    A text of a stranger's, on one line whatever it holds.

    >>> printable("evil\nERROR")
    'evil\\nERROR'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
