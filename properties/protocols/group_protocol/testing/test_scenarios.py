"""
The scenarios of the broker for tests: a right coordinator passes, and planted mistakes show.

The consumers are of one thread and wait for nothing, so that a scenario is over within a second.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from herdproof.errors import NotInTime
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.testing.scenarios import SCENARIOS, play
from herdproof.testing import LocalBroker
from properties.protocols.group_protocol.held.group_hunts import (
    ALL_MUTANTS,
    NOT_IN_TIME,
    PLAYED,
    row,
)
from properties.protocols.group_protocol.testing.turned import PARTITIONS, TOPIC, TurnedConsumers

PAGE = Path(__file__).parents[4] / "docs" / "testing_consumers.md"
PATIENCE_S = 20.0
HANGS_S = 1.0
"""What hangs is given up so soon; what does not is found by what is broken."""


class MistakenBroker(LocalBroker):
    """A broker for tests with another core."""

    def __init__(self, core: type[GroupCoordinator]) -> None:
        super().__init__({TOPIC: PARTITIONS})
        self._coordinator = core


def found_by(scenario: str, core: type[GroupCoordinator], patience_s: float) -> list[str]:
    """What a suite is told by a scenario: the sentences that are broken, and whether it settles."""
    found = []
    with MistakenBroker(core) as broker:
        try:
            play(scenario, broker, TurnedConsumers(broker), patience_s=patience_s)
        except NotInTime:
            found.append(NOT_IN_TIME)
        found += broker.judge(fenced=True).sentences
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_right_coordinator_passes(scenario: str) -> None:
    """Nothing is broken, and all is delivered."""
    assert found_by(scenario, GroupCoordinator, PATIENCE_S) == []


@pytest.mark.parametrize("name", PLAYED)
def test_a_mistake_is_shown_by_its_scenario(name: str) -> None:
    """A scenario shows what is said to come of the mistake."""
    scenario, finding = PLAYED[name]

    assert finding in found_by(scenario, ALL_MUTANTS[name], HANGS_S)


@pytest.mark.parametrize("name", ALL_MUTANTS)
def test_the_page_lists_each_mistake(name: str) -> None:
    """With what shows it."""
    assert row(name) in PAGE.read_text("utf-8")
