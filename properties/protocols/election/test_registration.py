"""The node of one broker: whose it is, and what is said where it is another's."""

from __future__ import annotations

import asyncio
import logging

import pytest

from herdproof import troubles
from herdproof.protocols.election import registration
from herdproof.protocols.election.registration import Registration
from herdproof.zookeeper.operations import Answer, Found, Operation, Stat

MINE, ANOTHER = 7, 8
PATH = "/coordinators/1"


def owned_by(session: int) -> Found:
    """A node that stands, of this session."""
    return Found(
        Stat(
            czxid=1, mzxid=1, version=0, cversion=0, ephemeral_owner=session, data_length=0,
            num_children=0,
        )
    )  # fmt: skip


def test_a_node_that_stays_anothers_is_told_again_until_it_is_ones_own(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two coordinators with one id: the second says so for as long as that lasts, then no more."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(registration, "RETRY_S", 0.001)
    monkeypatch.setattr(troubles, "FIRST_WAIT_S", 0.0)
    owner = ANOTHER
    told_twice = asyncio.Event()

    async def ask(_: Operation) -> Answer:
        if sum("another session holds" in line for line in caplog.messages) >= 2:
            told_twice.set()
        return owned_by(owner)

    async def told() -> tuple[tuple[str, ...], tuple[str, ...]]:
        nonlocal owner
        node = Registration(PATH, bytes, ask, lambda: MINE)
        keeping = asyncio.create_task(node.keep())
        await told_twice.wait()
        meanwhile, owner = node.troubles, MINE
        await node.wait_registered()
        keeping.cancel()
        return meanwhile, node.troubles

    (meanwhile,), afterwards = asyncio.run(asyncio.wait_for(told(), 60))
    assert PATH in meanwhile
    assert "one --broker-id" in meanwhile
    assert afterwards == ()
    assert caplog.messages[-1].startswith("recovered after")
