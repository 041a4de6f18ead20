"""
Unmodified clients as static members (`group.instance.id`) at `herdproof broker`, on both planes.

Who comes back within its session has what it had, and nobody is rebalanced; of two with one
instance id the older one is fenced; who stays away for longer is a member no longer. What the
coordinator says that it does conforms to the spec's variant with static members.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from herdproof.conformance.traces.line import read_files
from herdproof.protocols.implementation import implementation
from integration.broker.broker_group import JAVA, PYTHON, BrokerGroup
from integration.broker.broker_judgement import judge_group
from integration.broker.test_broker import AT_LENGTH, Ground, ground_of

KINDS = [PYTHON, pytest.param((*PYTHON, JAVA), marks=pytest.mark.long)]
NEVER_FENCED = "aiokafka"
"""It tells its instance id when it joins, and not again: who is pushed out joins anew."""
LONG_MS = 60_000
"""A session that outlasts any restart."""


@pytest.fixture(params=AT_LENGTH)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    """A broker of either plane, traced, with a topic."""
    with ground_of(request, tmp_path) as made:
        yield made


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kinds", KINDS)
def test_who_comes_back_in_time_has_what_it_had(ground: Ground, kinds: Sequence[str]) -> None:
    """
    Each restarts, by closing or by `kill -9`; then others take their places, and they are fenced.

    Nobody else notices: no generation has begun since.
    """
    with ground.group("static", LONG_MS) as group:
        for kind in kinds:
            group.start(kind, kind, instance=kind)
        owners, began_ns = steady(group, *kinds), time.time_ns()
        for number, kind in enumerate(kinds):
            end = group.kill if number % 2 else group.leave
            end(kind)
            group.start(kind, kind, instance=kind)
        assert group.settle(*kinds) == owners

        fenced = [kind for kind in kinds if kind != NEVER_FENCED]
        newer = {kind: kind for kind in kinds} | {kind: f"another-{kind}" for kind in fenced}
        for kind in fenced:
            group.start(newer[kind], kind, instance=kind)
        assert steady(group, *newer.values()) == {n: newer[kind] for n, kind in owners.items()}
        for kind in fenced:
            assert "fenced" in (said := group.await_end(kind)).lower(), said
        assert group.lost() == []

    seen = judge_group(group, ground.trace)

    assert seen["replace_member", ""] >= len(kinds) + len(fenced)
    assert not seen["expire", ""]
    assert "complete_join" not in since(began_ns, ground.trace)


def steady(group: BrokerGroup, *names: str) -> dict[int, str]:
    """Wait until these members have partitions, the same for two rounds; who which."""
    owners: dict[int, str] = {}
    while (now := group.settle(*names)) != owners:
        owners = now
    return owners


def since(began_ns: int, trace: Path) -> set[str]:
    """The actions of a trace from this time on."""
    lines = read_files([trace], implementation("group_protocol").table.formats)
    return {line.action for line in lines if line.time_ns > began_ns}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kinds", KINDS)
def test_who_stays_away_for_longer_is_a_member_no_longer(
    ground: Ground, kinds: Sequence[str]
) -> None:
    """One is closed and one is killed: both are waited for, and then given up. They come back."""
    with ground.group("static") as group:
        for kind in kinds:
            group.start(kind, kind, instance=kind)
        group.settle(*kinds)
        closed, killed, *left = kinds
        group.leave(closed)
        group.kill(killed)
        group.settle(*left)
        for kind in (closed, killed):
            group.start(kind, kind, instance=kind)
        group.settle(*kinds)
        assert group.lost() == []

    seen = judge_group(group, ground.trace)

    assert seen["expire", ""] >= 2
    assert not any(action == "handle_leave_group" for action, _ in seen)
