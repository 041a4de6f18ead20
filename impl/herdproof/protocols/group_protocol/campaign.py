"""The simulator of system C in a campaign: mixes of what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from herdproof.pipeline.campaign.judged import JudgedRun, JudgedRuns
from herdproof.pipeline.campaign.runs import Asked, Ran
from herdproof.protocols.group_protocol.client.assignors.sticky import CooperativeStickyAssignor
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.held.flawed import FLAWS
from herdproof.protocols.group_protocol.judged.eyes import WATCHES, judged_group_run
from herdproof.protocols.group_protocol.simulated.random_runs import GroupRunConfig, Mishap
from herdproof.protocols.group_protocol.simulated.traced import GroupRunTracers
from herdproof.protocols.group_protocol.simulated.world import DEFAULT, GroupRun
from herdproof.simulator.traced import ProcessTracers

BROKERS = (
    Mishap.KILL_BROKER, Mishap.PAUSE_BROKER, Mishap.PART_BROKER, Mishap.CUT_BROKER,
    Mishap.LOSE_REPLY, Mishap.EXPIRE,
)  # fmt: skip
MEMBERS = (Mishap.KILL, Mishap.PAUSE, Mishap.PART, Mishap.LEAVE, Mishap.JOIN)
MIXES = {
    "mixed": DEFAULT,
    "stormy": replace(DEFAULT, troubles=50),
    "calm": replace(DEFAULT, kinds=()),
    "failovers": replace(DEFAULT, kinds=BROKERS),
    "members": replace(DEFAULT, kinds=MEMBERS),
    "larger": replace(DEFAULT, members=6, brokers=3),
    "static": replace(DEFAULT, statics=2, kinds=tuple(Mishap)),
    "cooperative": replace(DEFAULT, assignor=CooperativeStickyAssignor.name),
}


@dataclass(frozen=True)
class FlawedGroups:
    """A run to live through, and the mistake of its coordinator, with clients that show it."""

    world: GroupRunConfig = DEFAULT
    coordinator: type[GroupCoordinator] = GroupCoordinator
    client: type[GroupConsumer] = GroupConsumer


class GroupRuns(JudgedRuns[FlawedGroups, GroupRun]):
    """System C."""

    name = "group_protocol"
    tracers = GroupRunTracers
    sentences: ClassVar = {promise.name: promise.sentence for promise in WATCHES.promises}

    def __init__(self) -> None:
        flaws = {
            name: partial(replace, coordinator=coordinator, client=client)
            for name, (coordinator, client) in FLAWS.items()
        }
        configs = {name: FlawedGroups(config) for name, config in MIXES.items()}
        super().__init__(FlawedGroups(), configs, flaws, f"{DEFAULT.troubles} troubles")

    def run(self, asked: Asked) -> Ran:
        """Live through the run of a seed; cooperative clients are traced, too."""
        cooperates = self.config(asked).world.assignor == CooperativeStickyAssignor.name
        tracers = GroupRunTracers(clients=cooperates)
        return self.judged(asked, tracers).ran(tracers.texts(), self.sentences)

    def judged(self, asked: Asked, tracers: ProcessTracers | None = None) -> JudgedRun[GroupRun]:
        """Live through a run, and judge it."""
        of = self.config(asked)
        return judged_group_run(
            asked.seed, of.world, of.coordinator, client=of.client, observe=tracers
        )
