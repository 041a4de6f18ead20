"""A client that writes down everything it is told, in order, for tests to look at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from herdproof.zookeeper.client import Client, Digest
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Answer, Create, Link, Operation, Watched

PATIENCE_S = 20.0
"""How long a test waits for what must come; only a failing test waits that long."""

_numbers = count(1)


class Diary:
    """What a client was told, in order: links with their sessions, watches, and answers."""

    def __init__(self) -> None:
        self.entries: list[tuple[Link, int] | Watched | Answer] = []

    def link(self, link: Link, session: int) -> None:
        """To be given to a client as `on_link`."""
        self.entries.append((link, session))

    def write(self, told: Watched | Answer) -> None:
        """To be given to a client as `on_watch` or `answer`."""
        self.entries.append(told)

    @property
    def links(self) -> list[tuple[Link, int]]:
        """The links that were told."""
        return [entry for entry in self.entries if isinstance(entry, tuple)]

    @property
    def watches(self) -> list[Watched]:
        """The watches that fired."""
        return [entry for entry in self.entries if isinstance(entry, Watched)]

    @property
    def answers(self) -> list[Answer]:
        """The answers that came."""
        return [entry for entry in self.entries if not isinstance(entry, tuple | Watched)]


class TestClient(Client):
    """A client with its diary."""

    __test__ = False

    def __init__(
        self, hosts: str, session_timeout_s: float = 10.0, digest: Digest | None = None
    ) -> None:
        self.diary = Diary()
        super().__init__(
            hosts,
            session_timeout_s=session_timeout_s,
            on_link=self.diary.link,
            on_watch=self.diary.write,
            digest=digest,
        )

    def ask(self, *operations: Operation) -> None:
        """Submit operations whose answers go into the diary."""
        for operation in operations:
            self.submit(operation, self.diary.write)

    def await_link(self, link: Link) -> None:
        """Wait until the last link that was told is this one."""
        eventually(lambda: self.link is link and self.diary.links[-1][0] is link)


@contextmanager
def connected(
    hosts: str, session_timeout_s: float = 10.0, digest: Digest | None = None
) -> Iterator[TestClient]:
    """A client that is closed at the end."""
    with TestClient(hosts, session_timeout_s, digest) as client:
        yield client


def new_root(zookeeper: EmbeddedZooKeeper) -> str:
    """The path of a new node, for one test's nodes alone."""
    path = f"/test-{next(_numbers)}"
    with connected(zookeeper.hosts) as client:
        client.perform(Create(path))
    return path


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it holds; fail if that takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)
