"""
A spec with something of everything that the language has: channels, records, sets, parts, starts.

Clients ask a server over a channel; the server serves one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from herdspec import Sort, Spec, action, always, require, specification
from herdspec.language.surface import Capacity, empty, eventually, initial, weak


class Client(Sort):
    """A client."""


class Word(Enum):
    """What is said."""

    ASK = "ask"
    THANK = "thank"


@dataclass(frozen=True)
class Message:
    """What goes over the channel."""

    word: Word
    who: Client


class Mutex(Spec):
    """One at a time."""

    busy: bool = False

    @action(fair=weak)
    def cool(self) -> None:
        """The server is free again."""
        require(self.busy)
        self.busy = False

    def take(self) -> None:
        """It is taken."""
        require(not self.busy)
        self.busy = True


class Net(Spec):
    """Clients ask a server over a channel."""

    inbox: Annotated[list[Message], Capacity(2)] = empty()
    served: set[Client] = empty()
    last: Client | None = None
    mutex: Mutex

    @initial
    def begin(self, c: Client) -> None:
        """{c} was served last."""
        self.last = c

    @action(fair=weak)
    def ask(self, c: Client) -> None:
        """{c} asks."""
        require(c not in self.served and len(self.inbox) == 0)
        self.inbox.append(Message(word=Word.ASK, who=c))

    @action(fair=weak)
    def serve(self) -> None:
        """The server serves who asked first."""
        require(len(self.inbox) > 0)
        m = self.inbox.pop(0)
        self.served.add(m.who)
        self.last = m.who
        self.mutex.take()


@always
def somebody_waits(s: Net) -> bool:
    """Somebody is not served (at last, all are)."""
    return not all(c in s.served for c in Client)


@eventually
def all_are_served(s: Net) -> bool:
    """All are served at last."""
    return all(c in s.served for c in Client)


def serve_one(self: Net) -> None:
    """The server serves who asks first, and nobody else."""
    require(len(self.inbox) > 0)
    require(not any(c in self.served for c in Client))
    m = self.inbox.pop(0)
    self.served.add(m.who)
    self.mutex.take()


NET = specification(Net, somebody_waits, all_are_served)
ONLY_ONE = NET.replace("OnlyOne", serve=serve_one)
