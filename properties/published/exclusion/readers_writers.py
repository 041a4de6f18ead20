"""
Readers and writers: a queue serves all requests in their order.

After `specifications/ReadersWriters/ReadersWriters.tla` of the TLA+ examples (Stark), at the
constants of its model `MC.cfg`: three actors. Each has at most one request to read and one to
write in the queue, so its capacity of six is never exceeded.
"""

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
    empty,
    require,
    sometimes,
    specification,
)


class Actor(Sort):
    """Who reads and writes."""


class Wish(Enum):
    """What an actor waits for."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Request:
    """A place in the queue."""

    wish: Wish
    actor: Actor


class ReadersWriters(Spec):
    """Many read at a time, or one writes."""

    readers: set[Actor] = empty()
    writers: set[Actor] = empty()
    waiting: Annotated[list[Request], Capacity(6)] = empty()

    @action
    def try_to_read(self, a: Actor) -> None:
        """{a} queues for reading."""
        require(Request(wish=Wish.READ, actor=a) not in self.waiting)
        self.waiting.append(Request(wish=Wish.READ, actor=a))

    @action
    def try_to_write(self, a: Actor) -> None:
        """{a} queues for writing."""
        require(Request(wish=Wish.WRITE, actor=a) not in self.waiting)
        self.waiting.append(Request(wish=Wish.WRITE, actor=a))

    @action
    def serve(self) -> None:
        """The first of the queue begins, if nothing is in its way."""
        require(len(self.waiting) > 0 and len(self.writers) == 0)
        first = self.waiting.pop(0)
        if first.wish == Wish.READ:
            self.readers.add(first.actor)
        else:
            require(len(self.readers) == 0)
            self.writers.add(first.actor)

    @action
    def stop(self, a: Actor) -> None:
        """{a} has done."""
        require(a in self.readers or a in self.writers)
        if a in self.readers:
            self.readers.discard(a)
        else:
            self.writers.discard(a)


@always
def no_reader_beside_a_writer(s: ReadersWriters) -> bool:
    """Nobody reads while somebody writes."""
    return not any(a in s.readers and b in s.writers for a in Actor for b in Actor)


@always
def one_writer(s: ReadersWriters) -> bool:
    """At most one actor writes."""
    return all(not (a in s.writers and b in s.writers) for a in Actor for b in Actor if a != b)


@sometimes
def all_read(s: ReadersWriters) -> bool:
    """All read at the same time."""
    return all(a in s.readers for a in Actor)


READERS_WRITERS = specification(ReadersWriters, no_reader_beside_a_writer, one_writer, all_read)
