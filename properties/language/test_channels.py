"""Channels for the prover: without order and length, but nothing that a channel does is missing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from herdspec import (
    Capacity,
    Sort,
    Spec,
    action,
    always,
    each,
    empty,
    fault,
    lemma,
    require,
    sometimes,
    specification,
)
from herdspec.check.exploration.explore import explore
from herdspec.check.proof.prove import prove


class Client(Sort):
    """Whoever wants the lock."""


class Word(Enum):
    """What a message says."""

    ASK = "ask"
    HELLO = "hello"


@dataclass(frozen=True)
class Message:
    """A word, and whom it is about."""

    word: Word
    client: Client


class Lock(Spec):
    """A lock server that talks over channels; a broken connection loses what is in flight."""

    free: bool = True
    holds: dict[Client, bool] = each(False)
    requests: Annotated[list[Message], Capacity(2)] = empty()
    grants: Annotated[list[Client], Capacity(1)] = empty()
    returns: Annotated[list[Client], Capacity(1)] = empty()

    @action
    def ask(self, c: Client, w: Word) -> None:
        """{c} says {w}."""
        require(not self.holds[c])
        self.requests.append(Message(w, c))

    @action
    def serve(self) -> None:
        """The server answers the first request."""
        require(len(self.requests) > 0)
        m = self.requests.pop(0)
        if m.word == Word.ASK and self.free:
            self.free = False
            self.grants.append(m.client)

    @action
    def receive(self, c: Client) -> None:
        """{c} receives a grant."""
        require(len(self.grants) > 0 and self.grants[0] == c)
        self.grants.pop(0)
        self.holds[c] = True

    @action
    def release(self, c: Client) -> None:
        """{c} gives the lock back."""
        require(self.holds[c])
        self.holds[c] = False
        self.returns.append(c)

    @action
    def take_back(self) -> None:
        """The server learns that the lock is free again."""
        require(len(self.returns) >= 1)
        self.returns.pop(0)
        self.free = True

    @action(kind=fault)
    def disconnect(self) -> None:
        """The connections break; requests in flight are lost."""
        self.requests.clear()


@always
def exclusive(s: Lock) -> bool:
    """At most one client holds the lock."""
    return all(not (s.holds[a] and s.holds[b]) for a in Client for b in Client if a != b)


@lemma
def one_token(s: Lock) -> bool:
    """The lock is free, held, granted in flight or on its way back: one of these."""
    granted = len(s.grants) > 0
    back = len(s.returns) > 0
    held = any(s.holds[c] for c in Client)
    return (
        not (s.free and (granted or back or held))
        and not (granted and (back or held))
        and not (back and held)
    )


@lemma
def no_second_message(s: Lock) -> bool:
    """There are never two grants in flight, nor two returns."""
    return len(s.grants) <= 1 and len(s.returns) < 2


@sometimes
def somebody_holds_it(s: Lock) -> bool:
    """Somebody holds it."""
    return any(s.holds[c] for c in Client)


LOCK = specification(Lock, exclusive, one_token, no_second_message, somebody_holds_it)


def test_a_protocol_over_channels_is_explored() -> None:
    """The cells keep order and lose nothing; what would overflow is counted."""
    found = explore(LOCK, {"Client": 2}, faults=1)

    assert not found.violations
    assert found.dropped > 0
    assert "somebody_holds_it" in found.witnesses


def test_a_channel_has_a_relational_form() -> None:
    """For proofs a message is sent under a free tag, and any tag in flight may be received."""
    spec = LOCK.for_proof

    assert [f.name for f in spec.fields] == [
        "free", "holds", "requests.sent", "requests.message.word", "requests.message.client",
        "grants.sent", "grants.message", "returns.sent", "returns.message",
    ]  # fmt: skip
    assert [name for name, _ in spec.action("serve").parameters] == ["tag1", "tag2"]
    assert "Tag" in spec.sorts
    assert LOCK.sorts == ("Client",)


def test_a_protocol_over_channels_is_proved() -> None:
    """Exclusion over channels is proved for any number of clients and of messages in flight."""
    assert prove(LOCK).proved
    assert not prove(LOCK, leave_out=frozenset({"no_second_message"})).proved


def careless(self: Lock) -> None:
    """The server forgets to remember what it granted."""
    require(len(self.requests) > 0)
    m = self.requests.pop(0)
    if m.word == Word.ASK and self.free:
        self.grants.append(m.client)


def test_a_flaw_over_channels_is_found_by_both() -> None:
    """A server that grants twice is no longer provable, and has a story."""
    flawed = LOCK.replace("Careless", serve=careless)

    assert not prove(flawed).proved
    assert "exclusive" in explore(flawed, {"Client": 2}, faults=0).violations


@always
def served_in_order(s: Lock) -> bool:
    """The first request is no greeting (which is wrong, and speaks of an order)."""
    return len(s.requests) == 0 or s.requests[0].word != Word.HELLO


def test_what_speaks_of_order_is_left_to_exploration() -> None:
    """A property about the first message of a channel is explored, and not offered for proof."""
    ordered = LOCK.with_properties(served_in_order)

    assert "served_in_order" in explore(ordered, {"Client": 1}, faults=0).violations
    assert "served_in_order" not in prove(ordered).promises
