"""
The steps that the elector's core hands out are those that it takes.

They are read once more, off the event and what the core is like before and after it, by a reader
that knows nothing of what the core says.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from herdproof.conformance.walks.walk import walk
from herdproof.protocols.election.elector import (
    AskZooKeeper,
    Call,
    Effect,
    ElectionStep,
    Elector,
    Event,
    LeaderChanged,
    LinkChanged,
    OperationAnswered,
    Resign,
    Stand,
    Woken,
)
from herdproof.protocols.election.held.adapter import electors
from herdproof.zookeeper.operations import Answer, Link, Refusal, Why
from herdspec.protocols.election.properties import ELECTION

IDLE = {"ignore", "handle_late", "handle_wake", "handle_watch"}
"""What is no step of the spec: no more may become of it than that a look is due."""


class Reader:
    """Reads the steps of one core."""

    def __init__(self) -> None:
        self.before = Elector("nobody")
        """What the core was like after the last event: another, with the same fields."""
        self.read: set[str] = set()

    def check(self, core: Elector, event: Event, effects: Sequence[Effect]) -> None:
        """The first of what comes of an event is its step, and no other is told."""
        step, *others = effects
        assert isinstance(step, ElectionStep)
        assert not any(isinstance(effect, ElectionStep) for effect in others)
        asks = any(isinstance(effect, AskZooKeeper) for effect in others)
        assert step == self.step(event, asks=asks)
        if step.action in IDLE:
            assert {**vars(core), "due": None} == {**vars(self.before), "due": None}
            assert core.due == self.before.due or step.action == "handle_watch"
        vars(self.before).update(vars(core))
        self.read.add(step.action)

    def step(self, event: Event, *, asks: bool) -> ElectionStep:
        """What an event comes to, and whether something is asked then."""
        before = self.before
        match event:
            case Stand():
                return ElectionStep("ignore" if before.stands else "stand")
            case Resign():
                return ElectionStep("resign" if before.stands else "ignore")
            case LeaderChanged():
                return ElectionStep("look" if asks else "handle_watch")
            case Woken():
                return ElectionStep("look" if asks else "handle_wake")
            case LinkChanged(link=Link.CONNECTED, session=session):
                if session != before.session:
                    return ElectionStep("handle_new_session")
                connected = before.link is Link.CONNECTED
                return ElectionStep("ignore" if connected else "handle_reconnected")
            case LinkChanged(link=link):
                return ElectionStep(f"handle_{link.value}")
            case OperationAnswered(number=number, answer=answer):
                if before.call is Call.NONE or number != before.number:
                    return ElectionStep("handle_late", number=number)
                call = "late" if leaves_open(answer) else before.call.value
                return ElectionStep(f"handle_{call}", before.call, number, answer)


def leaves_open(answer: Answer) -> bool:
    """Whether nobody knows after it if the call was done."""
    lost = (Why.CONNECTION_LOSS, Why.SESSION_EXPIRED)
    return isinstance(answer, Refusal) and answer.why in lost


def test_each_event_is_told_as_the_step_that_it_is() -> None:
    """In random runs with all kinds of faults, each core's steps are those that are read off."""
    readers: dict[int, tuple[Elector, Reader]] = {}

    def observe(core: Elector, event: Event, effects: Sequence[Effect]) -> None:
        _, reader = readers.setdefault(id(core), (core, Reader()))
        if not reader.read:
            vars(reader.before).update(broker=core.broker, paths=core.paths)
        reader.check(core, event, effects)

    walked = walk(ELECTION, electors(observe=observe), {"Broker": (2, 4)}, runs=60, steps=200)

    assert walked.difference is None, str(walked.difference)
    read = set[str]().union(*(reader.read for _, reader in readers.values()))
    assert read >= {
        "stand", "resign", "look", "handle_look", "handle_recall", "handle_read", "handle_create",
        "handle_delete", "handle_suspended", "handle_reconnected", "handle_lost",
        "handle_new_session", "handle_watch", "handle_wake", "handle_late",
    }  # fmt: skip


def test_a_core_that_tells_another_step_is_noticed() -> None:
    """The reader believes no core."""

    class Lying(Elector):
        """It looks, and calls that a wake-up."""

        def look(self) -> list[Effect]:
            """Look, if there is still a reason to."""
            told, *others = super().look()
            return [ElectionStep("handle_wake") if others else told, *others]

    core, reader = Lying("nobody"), Reader()
    core.due, core.link = True, Link.CONNECTED
    vars(reader.before).update(vars(core))

    with pytest.raises(AssertionError):
        reader.check(core, Woken(), core.receive(Woken()))
