"""
The plan of a demonstration: who is broken when, and in which words that is told.

An *episode* is one disturbance with what makes up for it. Episodes last as long as the time-outs
make them, so a plan has more or fewer of them, and none that is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count, cycle

SESSION_S = 4.0
"""Of consumers with coordinators, and of these with ZooKeeper; 10 and 6 s where nobody sets it."""
LEASE_S = 2.5
"""After so long a silence of ZooKeeper's a coordinator leads no more."""
PING_S = 0.5
SETTLE_S = 5.0
"""The seconds at the beginning in which nothing is broken."""


class Do(Enum):
    """Acts that are done to somebody; the value says what kind of mark one gets."""

    KILL = "killed"
    STOP = "asked to end"
    START = "started"
    PAUSE = "paused"
    RESUME = "resumed"
    CUT = "cut off"
    MEND = "mended"
    BREAK = "connections cut"


class Whom(Enum):
    """Who is meant; it is known only when it is done who leads then."""

    LEADER = "the leader"
    CONSUMER = "a consumer"
    ZOOKEEPER = "ZooKeeper"
    SAME = "whoever was broken before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One step of the plan; `words` tell it, with {name} for whom it meets."""

    at_s: float
    do: Do
    whom: Whom
    words: str

    def told(self, name: str) -> str:
        """The sentence, once it is known whom it meets."""
        return self.words.format(name=name, session=SESSION_S, lease=LEASE_S)


@dataclass(frozen=True, slots=True)
class Episode:
    """A disturbance, and what makes up for it; times are from its beginning."""

    lasts_s: float
    acts: tuple[Act, ...]


def _then(at_s: float, do: Do, whom: Whom, words: str) -> Act:
    return Act(at_s=at_s, do=do, whom=whom, words=words)


EPISODES = (
    Episode(12.0, (
        _then(0.0, Do.KILL, Whom.LEADER, (
            "the leader, {name}, is killed (kill -9); its ZooKeeper session ends in up to"
            " {session:g} s, and only then may another be elected"
        )),
        _then(8.0, Do.START, Whom.SAME, "{name} is started again, and stands by"),
    )),
    Episode(11.0, (
        _then(0.0, Do.KILL, Whom.CONSUMER, (
            "{name} is killed (kill -9); what it had may be given to others when its lease of"
            " {session:g} s is over"
        )),
        _then(7.0, Do.START, Whom.SAME, "{name} is started again, and gets its share"),
    )),
    Episode(12.0, (
        _then(0.0, Do.PAUSE, Whom.LEADER, (
            "the leader, {name}, is paused (SIGSTOP); another is elected, of which it knows nothing"
        )),
        _then(8.0, Do.RESUME, Whom.SAME, (
            "{name} goes on (SIGCONT), finds that it was away for too long, and steps down"
        )),
    )),
    Episode(11.0, (
        _then(0.0, Do.PAUSE, Whom.CONSUMER, (
            "{name} is paused (SIGSTOP); when its lease of {session:g} s is over, the others have"
            " what it had"
        )),
        _then(7.0, Do.RESUME, Whom.SAME, (
            "{name} goes on (SIGCONT), and must not read on where others read by now"
        )),
    )),
    Episode(12.0, (
        _then(0.0, Do.CUT, Whom.LEADER, (
            "the leader, {name}, is cut off from ZooKeeper; it has to stop leading by itself, after"
            " {lease:g} s at the latest"
        )),
        _then(7.0, Do.MEND, Whom.SAME, (
            "{name} reaches ZooKeeper again, which gets what it sent before, too late"
        )),
    )),
    Episode(6.0, (
        _then(0.0, Do.BREAK, Whom.LEADER, (
            "all connections between consumers and the leader, {name}, are cut; they come back at"
            " once, and say what they had"
        )),
    )),
    Episode(7.0, (
        _then(0.0, Do.PAUSE, Whom.ZOOKEEPER, (
            "ZooKeeper is paused for 2 s; that is shorter than any lease, and nobody has to stop"
        )),
        _then(2.0, Do.RESUME, Whom.ZOOKEEPER, "ZooKeeper goes on"),
    )),
    Episode(9.0, (
        _then(0.0, Do.STOP, Whom.LEADER, (
            "the leader, {name}, is asked to end (SIGTERM); it hands over, and nobody is waited for"
        )),
        _then(5.0, Do.START, Whom.SAME, "{name} is started again, and stands by"),
    )),
)  # fmt: skip
"""All of them, in the order in which they are played; after the last comes the first again."""

LEAST_S = int(SETTLE_S + EPISODES[0].lasts_s)
"""A shorter demonstration would have nothing to show."""
WHOLE_S = int(SETTLE_S + sum(episode.lasts_s for episode in EPISODES))
"""Time that it takes to play each episode once."""


def planned(seconds: float) -> list[Act]:
    """The acts of a demonstration of so many seconds, by their times from its beginning."""
    return [
        replace(act, at_s=begins + act.at_s)
        for begins, episode in _fitting(seconds)
        for act in episode.acts
    ]


def _fitting(seconds: float) -> Iterator[tuple[float, Episode]]:
    """The episodes that end in time, each with when it begins."""
    begins = SETTLE_S
    for episode in cycle(EPISODES):
        if begins + episode.lasts_s > seconds:
            return
        yield begins, episode
        begins += episode.lasts_s


def turns(consumers: int) -> Iterator[int]:
    """The numbers of the consumers that are broken, in turn; never the same twice, of several."""
    return (1 + (n % consumers) for n in count(1))
