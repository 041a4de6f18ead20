r"""
White lists and black lists: filters of topics, as every member of a group has to understand them.

Kafka 0.8 makes a regex of Java's out of what its user writes: "," is "|", blanks go, and quotes
around it, which property files bring along. It has to match a topic's whole name; internal topics
are left out. Every member applies the filters of all members, and plans differ where two do not
think alike of one. So a regex is taken only if it keeps to what Java and RE2, which matches here,
read in the same way: letters, digits and `_ - . * + ? | ( ) ^ $`, counts as `{2,3}`, classes as
`[a-z]` or `[^a-z]`, and `\d \D \w \W \s \S`. Others (`[a-z&&[^b]]`, look-around, back-references)
are refused, not guessed at.

Source: Kafka 0.8.2, `TopicFilter`, `Topic.InternalTopics`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from herdproof.consuming.subscription import InvalidSubscription, Pattern, compiled

INTERNAL_TOPICS = frozenset({"__consumer_offsets"})
"""The internal topics of Kafka 0.8: were a later one's left out, plans would differ."""

_UNAMBIGUOUS = re.compile(
    r"""(?: [A-Za-z0-9_\-.|()^$]            # as they are, groups and ends
          | [*+?] \??                       # repeated; reluctantly, too
          | \(\?: | \(\?i\)                 # a group that is not kept; whatever the case
          | \{[0-9]{1,3}(?:,[0-9]{0,3})?\}
          | \\[^A-Za-z0-9\s] | \\[dDwWsS]
          | \[\^? (?: [^\]\[\\&^] | \\[^A-Za-z0-9\s&] | \\[dDwWsS] )+ \]
        )+""",
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """Which topics a wildcard takes in: those that `regex` matches, or (`excluding`) the others."""

    regex: str
    excluding: bool = False

    def __post_init__(self) -> None:
        _pattern(self.regex)

    def is_topic_allowed(self, topic: str) -> bool:
        """Tells whether the wildcard takes this topic in."""
        if topic in INTERNAL_TOPICS:
            return False
        return _pattern(self.regex).matches(topic) != self.excluding


def cleaned(raw_regex: str) -> str:
    """
    The regex that 0.8 makes of what a user writes.

    >>> cleaned(' "orders, payments.*" ')
    'orders|payments.*'
    """
    regex = raw_regex.strip().replace(",", "|").replace(" ", "")
    return regex.lstrip("\"'").rstrip("\"'")


@lru_cache(maxsize=1_024)
def _pattern(regex: str) -> Pattern:
    """A regex, compiled; `InvalidSubscription` says why not."""
    found = compiled(regex)
    if not _UNAMBIGUOUS.fullmatch(regex):
        raise InvalidSubscription(
            f"the regex {regex[:80]!r} has what Java and RE2 may not read alike: keep to letters, "
            f"digits, . * + ? | ( ) {{2,3}} [a-z] and \\d \\w \\s, so that every member does"
        )
    return found
