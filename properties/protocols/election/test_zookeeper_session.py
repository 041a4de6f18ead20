"""
What ZooKeeper tells reaches a coordinator's loop in order, and in portions.

A session's thread may tell thousands of things at once; the loop looks at its connections between
portions of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from herdproof.protocols.election import zookeeper_session
from herdproof.protocols.election.elector import ElectionPaths
from herdproof.protocols.election.zookeeper_session import PORTION_S, ZooKeeperSession
from herdproof.shells.configuration import ZooKeeperSection
from herdproof.zookeeper.operations import Answer, Get, Link, Operation, Synced, Watched


class Session:
    """An election's session in a test's hand: what it is asked, and what it tells."""

    def __init__(self, *_: object, **told: Callable[..., None]) -> None:
        self.client = self
        self.told = told
        self.answers: list[Callable[[Answer], None]] = []

    def submit(self, _operation: Operation, answer: Callable[[Answer], None]) -> None:
        """Keep the question."""
        self.answers.append(answer)


class Owner:
    """Who is told; for anything it takes a while."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.takes_s = 0.0

    def hear(self, what: object) -> None:
        """Take note of it, for a while."""
        self.heard.append(what)
        end = time.perf_counter() + self.takes_s
        while time.perf_counter() < end:
            pass

    def asked(self, *_: object) -> None:
        """An operation was answered."""

    def fired(self, watched: Watched) -> None:
        """A watch fired."""
        self.hear(watched.path)

    def linked(self, link: Link) -> None:
        """The link has changed."""
        self.hear(link)

    def over(self) -> None:
        """The session has ended."""

    elected = deposed = hear


def kept(monkeypatch: pytest.MonkeyPatch, test: Callable[[ZooKeeperSession, Owner], Any]) -> None:
    """Run a test with the session of a broker, over such a session."""
    monkeypatch.setattr(zookeeper_session, "ZkElection", Session)

    async def run() -> None:
        """Make them in the loop that they live in."""
        owner = Owner()
        await test(ZooKeeperSession(ZooKeeperSection(), 1, ElectionPaths(), owner), owner)

    asyncio.run(run())


def session(of: ZooKeeperSession) -> Session:
    """Its session."""
    found: Any = of._election
    assert isinstance(found, Session)
    return found


def test_answers_are_heard_in_portions_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thirty that take a fifth of a portion each, others have their turn in between."""

    async def test(of: ZooKeeperSession, owner: Owner) -> None:
        """Answer all at once."""
        for number in range(30):
            of.submit(Get("/x"), lambda _, number=number: owner.hear(number))  # type: ignore[misc]
        owner.takes_s = PORTION_S / 5
        for answer in session(of).answers:
            answer(Synced())
        turns = []
        while len(owner.heard) < 30:
            await asyncio.sleep(0)
            turns.append(len(owner.heard))

        assert owner.heard == list(range(30))
        assert max(after - before for before, after in zip([0, *turns], turns, strict=False)) <= 5

    kept(monkeypatch, test)


def test_watches_that_were_lost_fire_first_and_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a connection is there again, all that was watched is read anew, before what is told."""

    async def test(of: ZooKeeperSession, owner: Owner) -> None:
        """Lose the connection, and have it again."""
        for number in range(20):
            of.submit(Get(f"/{number:02}", watch=True), owner.hear)
        told = session(of).told
        told["on_link"](Link.SUSPENDED, 1)
        told["on_link"](Link.CONNECTED, 1)
        told["on_elected"](7)
        owner.takes_s = PORTION_S / 4
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < len(owner.heard) < 20
        while 7 not in owner.heard:
            await asyncio.sleep(0)

        assert owner.heard == [
            Link.SUSPENDED, Link.CONNECTED, *(f"/{number:02}" for number in range(20)), 7,
        ]  # fmt: skip

    kept(monkeypatch, test)
