"""
Scenarios for tests to be parametrised by: what happens to consumers in a year, in some seconds.

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_my_consumers(scenario, herdproof_broker):
        play(scenario, herdproof_broker, MyConsumers(herdproof_broker.bootstrap))

A test says how one of its consumers is started, stopped, and given a turn; it tells the broker what
was delivered. A scenario strikes, has everybody go on, and ends when the group has settled and all
records have been delivered. What comes of that the contract judges: `herdproof_broker.judge()`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from herdproof.errors import NotInTime
from herdproof.protocols.group_protocol.testing.broker import LocalBroker
from herdproof.protocols.group_protocol.testing.errors import BadBrokerUse

RECORDS = 12
"""The number of records that are produced at a time."""
ZOMBIES_TURNS = 4
SPEED = 5
"""
Factor by which the coordinator's time passes faster than the day's in a scenario: a member that is
gone without a word, and that others wait for, is gone after a fifth of its session's time.
"""


class ScenarioConsumers(Protocol):
    """A test's own consumers of one group; each is called by its `client.id`."""

    names: Sequence[str]
    group: str
    topic: str

    def start(self, name: str) -> None:
        """Start a consumer that is not running."""

    def stop(self, name: str) -> None:
        """Close a consumer that is running, as a deployment would."""

    def turn(self, name: str) -> None:
        """Let a consumer poll once, briefly: what it gets is told to the broker, and committed."""


@dataclass
class Stage:
    """A broker, a test's consumers, and those of them that run and are given turns."""

    broker: LocalBroker
    consumers: ScenarioConsumers
    patience_s: float
    running: dict[str, None] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a consumer."""
        self.consumers.start(name)
        self.running[name] = None

    def stop(self, name: str) -> None:
        """Close a consumer."""
        self.consumers.stop(name)
        del self.running[name]

    def produce(self) -> None:
        """Produce some records more."""
        self.broker.produce(self.consumers.topic, *(f"record {n}" for n in range(RECORDS)))

    def settle(self) -> None:
        """Give turns to all that run, until they are the group and all is delivered."""
        self.go_on(list(self.running), self.is_settled)

    def go_on_without(self, name: str) -> None:
        """Give turns to all that run but one, until the group is stable with them."""
        others = [other for other in self.running if other != name]

        def is_stable() -> bool:
            now = self.broker.group(self.consumers.group)
            return now.state == "Stable" and set(others) <= set(now.members)

        self.go_on(others, is_stable)

    def go_on(self, awake: Sequence[str], until: Callable[[], bool]) -> None:
        """Give turns to these; raises `NotInTime`."""
        begun = last = time.monotonic()
        while not until():
            for name in awake:
                self.consumers.turn(name)
            now_s = time.monotonic()
            self.broker.advance((now_s - last) * SPEED)
            last = now_s
            if now_s - begun > self.patience_s:
                left = self.broker.undelivered(self.consumers.group, self.consumers.topic)
                now = self.broker.group(self.consumers.group)
                raise NotInTime(
                    f"after {self.patience_s:g} s the group is {now.state} with members "
                    f"{', '.join(now.members) or 'none'}, where {', '.join(awake)} were given "
                    f"turns; not delivered are {dict(left) or 'none'}"
                )

    def is_settled(self) -> bool:
        """Tells whether those that run are the group, and got every record."""
        now = self.broker.group(self.consumers.group)
        return (
            now.state == "Stable"
            and set(now.members) == set(self.running)
            and not self.broker.undelivered(self.consumers.group, self.consumers.topic)
        )


def rolling_restart(stage: Stage) -> None:
    """Each consumer is closed and started again, one after the other, while records come."""
    for name in stage.consumers.names:
        stage.stop(name)
        stage.produce()
        stage.settle()
        stage.start(name)
        stage.produce()
        stage.settle()


def gone(stage: Stage) -> None:
    """A consumer is gone without a word: its LeaveGroup is lost, and its session has to end."""
    name = stage.consumers.names[0]
    stage.broker.fault("drop", api="LeaveGroup", client=name, must_come=False)
    stage.stop(name)
    stage.produce()
    stage.settle()
    stage.start(name)
    stage.produce()
    stage.settle()


def slow_handler(stage: Stage) -> None:
    """A consumer is given no turn for so long that its session ends; then it goes on."""
    slow = stage.consumers.names[0]
    stage.produce()
    stage.consumers.turn(slow)
    stage.broker.expire(slow)
    stage.go_on_without(slow)
    stage.produce()
    stage.settle()


def lost_answers(stage: Stage) -> None:
    """Answers to joins, syncs, heartbeats and commits are lost, each with its connection."""
    for api in ("OffsetCommit", "Heartbeat", "JoinGroup", "SyncGroup"):
        stage.broker.fault("lose_answer", api=api, must_come=api != "Heartbeat")
    name = stage.consumers.names[0]
    stage.stop(name)
    stage.produce()
    stage.start(name)
    stage.settle()


def failover(stage: Stage) -> None:
    """Another coordinator is elected, once in the quiet and once in the middle of a rebalance."""
    stage.broker.failover()
    stage.produce()
    stage.settle()
    stage.stop(stage.consumers.names[0])
    stage.broker.failover()
    stage.start(stage.consumers.names[0])
    stage.produce()
    stage.settle()


def zombie(stage: Stage) -> None:
    """A consumer is taken for dead and not told so: it goes on with what it has, among others."""
    name = stage.consumers.names[0]
    stage.produce()
    stage.consumers.turn(name)
    stage.broker.fault("drop", api="Heartbeat", client=name, times=3, must_come=False)
    stage.broker.expire(name)
    stage.go_on_without(name)
    for _ in range(ZOMBIES_TURNS):
        stage.consumers.turn(name)
    stage.produce()
    stage.settle()


SCENARIOS: Mapping[str, Callable[[Stage], None]] = {
    each.__name__: each
    for each in (rolling_restart, gone, slow_handler, lost_answers, failover, zombie)
}


def play(
    scenario: str, broker: LocalBroker, consumers: ScenarioConsumers, *, patience_s: float = 20.0
) -> None:
    """
    Start the consumers, have them settle, and let a scenario come over them.

    Raises `NotInTime` if the group does not settle, or records are not delivered, in that time.
    """
    if scenario not in SCENARIOS:
        raise BadBrokerUse(f"there is no scenario {scenario!r}: one of {', '.join(SCENARIOS)}")
    stage = Stage(broker, consumers, patience_s)
    try:
        for name in consumers.names:
            stage.start(name)
        stage.produce()
        stage.settle()
        SCENARIOS[scenario](stage)
    finally:
        for name in list(stage.running):
            stage.stop(name)
