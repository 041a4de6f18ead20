"""The figures of a group coordinator are what its core has, event by event."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from herdproof.broker.metrics import BrokerMetrics
from herdproof.protocols.election.metrics import ZooKeeperFigures
from herdproof.protocols.group_protocol.effects import GroupEffect
from herdproof.protocols.group_protocol.messages import JoinGroupResponse, LeavingMember
from herdproof.protocols.group_protocol.server.metrics import GroupMetrics
from properties.protocols.group_protocol.coordinator.group_world import (
    REBALANCE_MS,
    SESSION_MS,
    CoordinatorAlone,
)

PAGE = (Path(__file__).parents[4] / "docs" / "broker.md").read_text()


class Measured(CoordinatorAlone):
    """A coordinator alone, whose figures are looked at after every event."""

    def measured(self) -> Measured:
        """It leads."""
        self.registry = CollectorRegistry()
        self.metrics = GroupMetrics(self.registry, lambda: self.now_ms / 1000)
        self.elected()
        return self

    def first(self) -> JoinGroupResponse:
        """Somebody joins the empty group, and is to share out."""
        caller = self.join()
        self.wait(0)
        return self.joined(caller)

    def rejoined(self, joined: JoinGroupResponse) -> JoinGroupResponse:
        """The only member, which leads, joins anew."""
        return self.joined(self.join(joined.member_id))

    def figure(self, name: str, **labels: str) -> float | None:
        """A figure as Prometheus reads it."""
        return self.registry.get_sample_value(f"herdproof_{name}", labels)

    def _perform(self, effects: list[GroupEffect]) -> None:
        self.metrics.observed(self.coordinator, effects)
        groups = self.coordinator.groups
        assert self.figure("members") == sum(len(group.members) for group in groups.values())
        assert self.figure("groups") == len(groups)
        super()._perform(effects)


def test_members_and_groups_are_those_that_the_core_has() -> None:
    """As they join, come back, leave and are lost, and when the coordinator does."""
    world = Measured().measured()
    first, second = world.stable(2)
    world.join(group_id="others")
    world.join(group_id="third", group_instance_id="static")
    assert (world.figure("members"), world.figure("groups")) == (4, 3)
    world.join(group_id="third", group_instance_id="static")
    world.leave(LeavingMember(first.member_id))
    world.wait(SESSION_MS + REBALANCE_MS)
    assert second.member_id not in world.group().members
    world.commit(None, p0=3)
    world.join()
    world.resign()
    assert (world.figure("members"), world.figure("groups")) == (0, 0)
    world.elected(2)
    assert world.figure("groups") == 3


def test_a_rebalance_lasts_until_its_assignment_is_told() -> None:
    """From when the first one joins, or leaves; one that ends without members is none."""
    world = Measured().measured()
    joined = world.first()
    world.wait(2_500)
    world.holds = True
    world.sync(joined, {joined.member_id: (0,)})
    world.wait(1_000)
    assert world.figure("rebalance_seconds_count") == 0
    world.store_next()
    assert world.figure("rebalance_seconds_sum") == 3.5
    world.holds = False
    joined = world.rejoined(joined)
    world.leave(LeavingMember(joined.member_id))
    world.wait(4_000)
    again = world.first()
    world.sync(again, {again.member_id: (0,)})
    assert world.figure("rebalance_seconds_sum") == 3.5

    assert world.figure("rebalance_seconds_count") == 2
    assert world.figure("steps_total", action="handle_sync_group") == 2
    assert world.figure("steps_total", action="handle_leave_group") == 1


def test_a_group_that_is_read_in_the_middle_of_a_rebalance_is_measured_from_there() -> None:
    """The former coordinator's time is not known to the next one."""
    world = Measured().measured()
    callers = [world.join(), world.join()]
    world.wait(1_000)
    leader, follower = (world.joined(caller) for caller in callers)
    world.resign()
    world.elected(2)
    world.wait(2_000)
    world.sync(follower)
    world.wait(1_000)
    world.sync(leader, {leader.member_id: (0,)})

    assert world.figure("rebalance_seconds_sum") == 3.0


def test_who_leads_is_told_with_the_epoch() -> None:
    """The last one stays when it is over."""
    registry = CollectorRegistry()
    figures = GroupMetrics(registry).coordinator
    figures.elected(7)
    assert registry.get_sample_value("herdproof_leads") == 1
    figures.deposed()

    assert registry.get_sample_value("herdproof_leads") == 0
    assert registry.get_sample_value("herdproof_epoch") == 7


def test_the_page_names_every_metric() -> None:
    """docs/broker.md tells of each metric, and of none that there is not."""
    registry = BrokerMetrics().registry
    GroupMetrics(registry)
    ZooKeeperFigures(registry)
    metrics = {metric.name for metric in registry.collect()}

    assert set(re.findall(r"`(herdproof_\w+)`", PAGE)) == metrics
