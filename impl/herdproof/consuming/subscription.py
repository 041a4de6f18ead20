"""
`topic_count`: which topics a consumer wants, with how many streams of each.

The syntax is Kafka 0.8's: `{"orders": 2, "payments": 1}` names topics; `*2*regex` wants two
streams of every topic that the regex matches, `!2!regex` of every one that it does not. A regex
has to match the whole name. It is RE2's, whose matching takes linear time: a consumer's regex runs
in the coordinator, where one that backtracks would stop every group. So would one that takes long
to compile: length, Unicode classes and the program's size are bounded. RE2 has neither look-around
nor back-references; that is what the form with `!` is for. A wildcard never means Kafka's internal
topics.

Source: `002` (topic_count: "interested topic and number of streams, can be wildcard"), Kafka 0.8's
TopicCount for the syntax.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from weakref import WeakValueDictionary

import re2

from herdproof.errors import CallerError

MAX_STREAMS = 1024
"""The most streams of one topic: the coordinator makes a thread of the plan of each."""

MAX_REGEX = 1_024
"""The most characters of a wildcard's regex: what it costs to read one grows with them."""
MAX_UNICODE_CLASSES = 8
r"""The most classes like \pL in a regex: RE2 unfolds each of them, and topics' names are ASCII."""
REGEX_BYTES = 2**17
"""Bytes that RE2 may take for a regex: one with a larger program is refused."""
STEPS_OF_A_MATCH = 400
"""Steps that a match takes beside what RE2 does."""
REFUSALS = 1_024
"""Number of refused regexes that are remembered: to refuse one of them again costs nothing."""

MATCHES = 4096
"""Of so many topics a regex remembers whether it matches: the same ones are asked for often."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_TOPICS = re.compile(r"(?:[a-zA-Z0-9._-]{1,249}/)*[a-zA-Z0-9._-]{1,249}")
_WILDCARD = re.compile(r"([*!])([0-9]{1,9})\1(.*)", re.DOTALL)


class InvalidSubscription(CallerError):
    """A `topic_count` that says nothing, or not what it should."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Named:
    """These topics, sorted by name, each with its number of streams."""

    topics: tuple[tuple[str, int], ...]
    _hash: int = field(init=False, repr=False, compare=False)

    is_wildcard = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.topics))

    def __hash__(self) -> int:
        """The hash of its topics, of which there may be a thousand: it is asked for often."""
        return self._hash

    def __reduce__(self) -> tuple[type[Named], tuple[tuple[tuple[str, int], ...]]]:
        """A copy in another process has another hash."""
        return Named, (self.topics,)

    def streams(self, topic: str) -> int:
        """The number of streams of this topic that are wanted; 0 if it is not subscribed to."""
        at = bisect_left(self.topics, (topic,))
        found = self.topics[at : at + 1]
        return found[0][1] if found and found[0][0] == topic else 0

    def steps(self, _topic: str) -> int:
        """The number of steps that it takes at most to look a topic up, of some 5 ns each."""
        return STEPS_OF_A_MATCH

    def text(self) -> str:
        """The subscription as `topic_count` has it."""
        return json.dumps(dict(self.topics))


class Pattern:
    """A compiled regex: it lives as long as a wildcard has it, and all wildcards share it."""

    __slots__ = ("__weakref__", "_compiled", "_known", "_size")

    def __init__(self, regex: str) -> None:
        options = re2.Options()
        options.max_mem = REGEX_BYTES
        options.log_errors = False  # they are raised; RE2 would write them to stderr as well
        options.never_capture = True
        self._compiled = re2.compile(regex, options)
        self._known: dict[str, bool] = {}
        self._size: int = self._compiled.programsize

    def matches(self, topic: str) -> bool:
        """True if the whole name matches."""
        found = self._known.get(topic)
        if found is None:
            if len(self._known) == MATCHES:
                self._known.clear()
            found = self._known[topic] = self._compiled.fullmatch(topic) is not None
        return found

    def steps(self, topic: str) -> int:
        """The number of steps that it takes at most to match a name, of some 5 ns each."""
        return STEPS_OF_A_MATCH + self._size * len(topic)


_PATTERNS: WeakValueDictionary[str, Pattern] = WeakValueDictionary()
_PARSED: WeakValueDictionary[str, Named | Wildcard] = WeakValueDictionary()
"""By their text, the subscriptions that somebody has: equal ones are mostly the same."""
_REFUSED: dict[str, str] = {}
"""Why a regex was refused, the oldest first."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Wildcard:
    """
    Every topic that a regex matches, or (`excluding`) that it does not, with so many streams.

    Raises `InvalidSubscription` if the regex is none.
    """

    regex: str
    count: int = 1
    excluding: bool = False
    pattern: Pattern = field(init=False, repr=False, compare=False)

    is_wildcard = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", compiled(self.regex))

    def __reduce__(self) -> tuple[type[Wildcard], tuple[str, int, bool]]:
        """A copy, or one in another process, compiles the regex itself if it has to."""
        return Wildcard, (self.regex, self.count, self.excluding)

    def streams(self, topic: str) -> int:
        """The number of streams of this topic that are wanted; 0 if it is not subscribed to."""
        if topic in INTERNAL_TOPICS:
            return 0
        return self.count if self.pattern.matches(topic) != self.excluding else 0

    def steps(self, topic: str) -> int:
        """The number of steps that it takes at most to match a topic, of some 5 ns each."""
        return self.pattern.steps(topic)

    def text(self) -> str:
        """The subscription as `topic_count` has it."""
        mark = "!" if self.excluding else "*"
        return f"{mark}{self.count}{mark}{self.regex}"


Subscription: TypeAlias = Named | Wildcard


def named(streams: Mapping[str, int]) -> Named:
    """A subscription to these topics; `InvalidSubscription` says which of them is wrong."""
    if not streams:
        raise InvalidSubscription('no topic is named; write {"topic": number of streams}')
    if not _are_fine(streams):
        for topic, count in streams.items():
            _check_topic(topic)
            _check_count(count, f"of topic {topic!r}")
    return Named(tuple(sorted(streams.items())))


def wildcard(regex: str, count: int = 1, *, excluding: bool = False) -> Wildcard:
    """A subscription to what a regex matches; `InvalidSubscription` says what is wrong with it."""
    _check_count(count, "of the wildcard")
    return Wildcard(regex, count, excluding)


def parse(topic_count: str) -> Subscription:
    """The subscription that a Register's `topic_count` means, or `InvalidSubscription`."""
    known = _PARSED.get(topic_count)
    if known is None:
        known = _PARSED[topic_count] = _parsed(topic_count)
    return known


def _parsed(topic_count: str) -> Subscription:
    if topic_count[:1] in ("*", "!"):
        found = _WILDCARD.fullmatch(topic_count)
        if not found:
            mark = topic_count[0]
            raise InvalidSubscription(
                f"{_shown(topic_count)} is no wildcard; write {mark}2{mark}regex for two streams"
            )
        return wildcard(found[3], int(found[2]), excluding=found[1] == "!")
    try:
        counts = json.loads(topic_count, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise InvalidSubscription(
            f"{_shown(topic_count)} is neither JSON nor a wildcard (*2*regex, !2!regex): {error}"
        ) from None
    if not isinstance(counts, dict):
        raise InvalidSubscription(
            f'{_shown(topic_count)} is no JSON object; write {{"topic": number of streams}}'
        )
    return named(counts)


def compiled(regex: str) -> Pattern:
    """A regex, compiled unless somebody has it already; `InvalidSubscription` says why not."""
    pattern = _PATTERNS.get(regex)
    if pattern is not None:
        return pattern
    _check_regex(regex)
    if why := _REFUSED.get(regex):
        raise InvalidSubscription(why)
    try:
        pattern = _PATTERNS[regex] = Pattern(regex)
    except re2.error as error:
        why = _why_refused(regex, error.args[0].decode("utf-8", "replace"))
        if len(_REFUSED) >= REFUSALS:
            _REFUSED.pop(next(iter(_REFUSED)), None)
        _REFUSED[regex] = why
        raise InvalidSubscription(why) from None
    except UnicodeEncodeError:
        raise InvalidSubscription(f"the regex {_shown(regex)} has no UTF-8") from None
    return pattern


def _check_regex(regex: str) -> None:
    """Refuse what would take long to compile, before anything is compiled."""
    if not regex:
        raise InvalidSubscription("the regex is empty; write .* for every topic")
    if len(regex) > MAX_REGEX:
        raise InvalidSubscription(
            f"the regex {_shown(regex)} has {len(regex):,} characters, more than {MAX_REGEX:,}"
        )
    classes = regex.count(r"\p") + regex.count(r"\P")
    if classes > MAX_UNICODE_CLASSES:
        raise InvalidSubscription(
            f"the regex {_shown(regex)} has {classes} Unicode classes (\\p), more than "
            f"{MAX_UNICODE_CLASSES}; topics' names are ASCII: write [a-zA-Z]"
        )


def _why_refused(regex: str, why: str) -> str:
    """The reason to give for a regex that RE2 does not compile."""
    if "too large" in why:
        return (
            f"the regex {_shown(regex)} is too large: compiled it takes more than "
            f"{REGEX_BYTES:,} bytes"
        )
    return (
        f"the regex {_shown(regex)} is none of RE2's, which has no look-around and no "
        f"back-references: {_shown(why)}"
    )


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON, which may not name one topic twice: one of the two would be lost."""
    counts = dict(pairs)
    if len(counts) < len(pairs):
        [(topic, _)] = Counter(topic for topic, _ in pairs).most_common(1)
        raise InvalidSubscription(f"topic {topic!r} is named twice")
    return counts


def _are_fine(streams: Mapping[str, int]) -> bool:
    """True if all names and numbers are as they should; at once, as a stranger names a thousand."""
    names, counts = "/".join(streams), streams.values()
    return (
        names.count("/") == len(streams) - 1
        and _TOPICS.fullmatch(names) is not None
        and not {".", ".."} & streams.keys()
        and set(map(type, counts)) == {int}
        and 1 <= min(counts) <= max(counts) <= MAX_STREAMS
    )


def _check_topic(topic: str) -> None:
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise InvalidSubscription(
            f"{_shown(topic)} cannot be a topic's name: 1 to 249 of a-z, A-Z, 0-9, . _ -"
        )


def _check_count(count: object, of_what: str) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_STREAMS:
        raise InvalidSubscription(
            f"the number of streams {of_what} is {_shown(str(count))}, "
            f"not one from 1 to {MAX_STREAMS}"
        )


def _shown(text: str) -> str:
    """A text for a message: what a stranger sent can be long."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
