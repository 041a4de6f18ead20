"""
Tests of system C's cores that its spec generates: a state machine, and the shortest stories.

Of the coordinator with the spec's own clients, and of both with ours.
"""

from typing import Any

import pytest
from hypothesis import settings

from herdproof.conformance.story_tests import stories
from herdproof.conformance.walks.stateful import stateful
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators
from herdproof.protocols.group_protocol.held.clients import HeldClients
from herdproof.protocols.group_protocol.held.flawed import TellsBeforeStoring
from herdspec.protocols.group_protocol.plan import BOUND
from herdspec.protocols.group_protocol.properties import HELD, NOTICING

DRAWN = settings(max_examples=30, stateful_step_count=50, derandomize=True)

GroupHeld: Any = stateful(HELD, HeldCoordinators, Broker=(1, 2), Member=(1, 2), Partition=(1, 2))
ClientsHeld: Any = stateful(HELD, HeldClients, Broker=(1, 2), Member=(1, 2), Partition=(1, 2))
GroupHeld.settings = ClientsHeld.settings = DRAWN

GroupStories: Any = stories(
    NOTICING, HeldCoordinators, faults=1, bound=BOUND, Broker=1, Member=2, Partition=1
)
ClientStories: Any = stories(
    NOTICING, HeldClients, faults=1, bound=BOUND, Broker=1, Member=2, Partition=1
)


class TellingUnstored(HeldCoordinators):
    """A coordinator that tells of a generation before it is stored."""

    core = TellsBeforeStoring


def test_a_mistake_is_found_by_what_is_generated() -> None:
    """A few draws come upon it."""
    machine: Any = stateful(HELD, TellingUnstored, Broker=1, Member=2, Partition=1)
    machine.settings = DRAWN

    with pytest.raises(AssertionError, match="step by step on spec and code"):
        machine("runTest").runTest()
