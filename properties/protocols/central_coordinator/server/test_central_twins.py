"""Two members of one id: told when the second comes, and when one of them is gone."""

from __future__ import annotations

import logging

import pytest

from herdproof.protocols.central_coordinator.events import Report
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.server.twins import Twins
from herdproof.troubles import Troubles


@pytest.fixture
def troubles() -> Troubles:
    """What is told."""
    return Troubles(logging.getLogger("test"))


@pytest.fixture
def twins(troubles: Troubles) -> Twins:
    """Nobody is a member."""
    return Twins(troubles)


def of(what: What, consumer: str, group: str = "g") -> Report:
    """A report of one consumer."""
    return Report(what, group, (("consumer", consumer), ("members", 7)))


def test_two_with_one_id_are_told_until_one_goes(
    twins: Twins, troubles: Troubles, caplog: pytest.LogCaptureFixture
) -> None:
    """The same id in another group is another one's."""
    twins.reported(of(What.MEMBER_JOINED, "c"))
    twins.reported(of(What.MEMBER_JOINED, "d"))
    twins.reported(of(What.MEMBER_JOINED, "c", "other"))
    assert not troubles.present

    twins.reported(of(What.MEMBER_JOINED, "c"))

    told = " ".join(troubles.present)
    assert told.startswith("2 members of group 'g' have the id 'c': each consumer needs one of its")
    twins.reported(of(What.MEMBER_LOST, "c"))
    assert troubles.present == ()
    assert "one member of 'g' has the id 'c'" in caplog.messages[-1]


def test_a_member_that_comes_back_is_one(twins: Twins, troubles: Troubles) -> None:
    """Nor has a coordinator that was deposed any member left."""
    for _ in range(3):
        twins.reported(of(What.MEMBER_JOINED, "c"))
        twins.reported(of(What.MEMBER_LOST, "c"))
    twins.reported(of(What.MEMBER_JOINED, "c"))
    twins.reported(Report(What.STEPPED_DOWN, "", (("epoch", 1),)))
    twins.reported(of(What.MEMBER_JOINED, "c"))

    assert troubles.present == ()
