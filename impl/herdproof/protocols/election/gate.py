"""
The gate: what carries events into an elector's core and its effects out, one at a time.

Events wait in the *inbox* until somebody takes them, calls wait in the *outbox* until somebody
releases them. A free-running elector (`shell.py`) does both at once; a test does either when its
plan says so, and thus drives late watches, stale reads and lost replies. Nothing is decided here,
and nothing here blocks, sleeps or starts a thread: whoever calls from several of them holds a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import assert_never

from herdproof.errors import CallerError
from herdproof.protocols.election.elector import (
    AskZooKeeper,
    Effect,
    ElectionStep,
    Elector,
    Event,
    LeadershipLost,
    LeadershipWon,
    OperationAnswered,
    Wake,
    Woken,
)
from herdproof.zookeeper.operations import Answer, Operation

Submit = Callable[[Operation, Callable[[Answer], None]], None]
"""Sends an operation to ZooKeeper, and calls back with its answer, at once or later."""

Observe = Callable[[Elector, Event, Sequence[Effect]], None]
"""Told after every event: the core as it is now, the event, and what it led to."""


class NothingWaits(CallerError):
    """An event was to be taken, or a call to be released, and none is there."""


def ignore_epoch(epoch: int) -> None:
    """Whom a shell tells that it leads, or leads no more, where nobody wants to know."""


def ignore_event(core: Elector, event: Event, effects: Sequence[Effect]) -> None:
    """Who observes a shell that nobody observes."""


class Shell:
    """One elector's gate; `elected` and `deposed` are told the epoch."""

    def __init__(
        self, core: Elector, *, elected: Callable[[int], None] = ignore_epoch,
        deposed: Callable[[int], None] = ignore_epoch, observe: Observe = ignore_event,
    ) -> None:  # fmt: skip
        self.core = core
        self.inbox: deque[Event] = deque()
        self.outbox: deque[AskZooKeeper] = deque()
        self.elected = elected
        self.deposed = deposed
        self.observe = observe

    def post(self, event: Event) -> None:
        """Put an event at the inbox's end."""
        self.inbox.append(event)

    def take(self) -> Event:
        """Give the core the next event of the inbox; `NothingWaits` if there is none."""
        if not self.inbox:
            raise NothingWaits(f"{self.core.broker}'s inbox is empty: post an event first")
        event = self.inbox.popleft()
        self.give(event)
        return event

    def give(self, event: Event) -> None:
        """Give the core an event at once, before whatever waits, and carry its effects out."""
        effects = self.core.receive(event)
        self.observe(self.core, event, effects)
        for effect in effects:
            match effect:
                case AskZooKeeper():
                    self.outbox.append(effect)
                case Wake():
                    self.inbox.append(Woken())
                case LeadershipWon(epoch=epoch):
                    self.elected(epoch)
                case LeadershipLost(epoch=epoch):
                    self.deposed(epoch)
                case ElectionStep():
                    pass  # for whoever observes
                case _:
                    assert_never(effect)

    def release(self, submit: Submit) -> AskZooKeeper:
        """Submit the oldest call; its answer will come to the inbox. `NothingWaits` if none."""
        if not self.outbox:
            raise NothingWaits(f"{self.core.broker} has no call to release: take its events first")
        ask = self.outbox.popleft()
        submit(ask.operation, lambda answer: self.post(OperationAnswered(ask.number, answer)))
        return ask
