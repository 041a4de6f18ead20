"""
Which clients live with which of Kafka's historical bugs, measured: a table for the docs.

    python -m integration.group_protocol.clients_with_bugs [BUG …]

Two consumers of each library are restarted one after the other, with a slow handler, a failover,
and one while all are away. Where a bug is one of static members, they are such: they also come back
twice before a failover, with another poll interval, and in the middle of a rebalance, while
assignments are awaited. Then all records must have been delivered, and the contract kept. The
coordinator counts how often its bug made a difference: where that is never, a client that goes on
well has shown nothing.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence

from herdproof.errors import NotInTime
from herdproof.protocols.group_protocol.bugs import statics
from herdproof.protocols.group_protocol.bugs.registry import BUGS
from herdproof.protocols.group_protocol.testing.scenarios import SCENARIOS, Stage
from herdproof.testing import LocalBroker
from integration.group_protocol.example_consumers import KINDS, OURS, ExampleConsumers

PATIENCE_S = 40.0
CLIENTS: Mapping[str, Callable[[LocalBroker], ExampleConsumers]] = {**KINDS, **OURS}
AWAY_S = 1200
"""Time that all consumers are away: longer than the coordinator takes to look for old offsets."""
OF_STATIC_MEMBERS = {
    "KAFKA-14201",
    *(name for name, core in BUGS.items() if core.__module__ == statics.__name__),
}


def all_away(stage: Stage) -> None:
    """Everybody is away while another coordinator is elected, and for a while."""
    names = list(stage.running)
    for name in names:
        stage.stop(name)
    stage.broker.failover()
    stage.broker.advance(AWAY_S)
    for name in names:
        stage.start(name)
    stage.produce()
    stage.settle()


def come_back(stage: Stage) -> None:
    """A static consumer is restarted twice while the others go on, then there is a failover."""
    name = stage.consumers.names[-1]
    for _ in range(2):
        stage.stop(name)
        beats = len(stage.broker.asked("Heartbeat", name))
        stage.start(name)
        stage.go_on(
            list(stage.running),
            lambda: len(stage.broker.asked("Heartbeat", name)) > beats,  # noqa: B023, called here
        )
    stage.broker.failover()
    stage.produce()
    stage.settle()


def another_interval(stage: Stage) -> None:
    """A static consumer comes back with a shorter `max.poll.interval.ms`."""
    name = stage.consumers.names[0]
    assert isinstance(stage.consumers, ExampleConsumers), "whose interval can be set"
    stage.consumers.poll_ms //= 2
    stage.stop(name)
    stage.start(name)
    stage.produce()
    stage.settle()


def in_the_middle(stage: Stage) -> None:
    """A static consumer is restarted while its group waits for what the leader assigns."""
    name = stage.consumers.names[-1]
    stage.broker.fault("delay", api="SyncGroup", seconds=1.5, times=4, must_come=False)
    stage.stop(name)
    stage.broker.expire(name)
    stage.start(name)
    group = stage.consumers.group
    stage.go_on(
        list(stage.running), lambda: stage.broker.group(group).state == "CompletingRebalance"
    )
    stage.stop(name)
    stage.start(name)
    stage.produce()
    stage.settle()


LIVED_THROUGH = (
    *(SCENARIOS[name] for name in ("rolling_restart", "slow_handler", "failover")),
    all_away,
)
IF_STATIC = (come_back, another_interval, in_the_middle)


def seen(bug: str | None, kind: str, *, static: bool) -> str:
    """What was seen of a library's consumers with a bug."""
    with LocalBroker(bug=bug) as broker:
        consumers = CLIENTS[kind](broker)
        consumers.is_static = static
        stage = Stage(broker, consumers, PATIENCE_S)
        came, scenario = "settles", "the beginning"
        try:
            for name in consumers.names:
                stage.start(name)
            stage.produce()
            stage.settle()
            for lived in (*LIVED_THROUGH, *(IF_STATIC if static else ())):
                scenario = lived.__name__
                lived(stage)
        except NotInTime:
            came = f"does not settle (`{scenario}`)"
        except Exception as problem:
            sort = type(problem)
            came = f"ends with `{sort.__name__}` of {sort.__module__} (`{scenario}`)"
        broken, occasions = broker.judge(fenced=True).sentences, broker.occasions
        end(consumers, stage)
    if broken:
        came += f", breaks {', '.join(f'`{each}`' for each in broken)}"
    if bug is None or occasions:
        return came + (f"; {occasions}" if occasions else "")
    return "no occasion" if came == "settles" else f"no occasion; {came}"


def end(consumers: ExampleConsumers, stage: Stage) -> None:
    """Close what still runs, as far as it can be."""
    for name in list(stage.running):
        try:
            stage.stop(name)
        except Exception as problem:
            print(f"# {name} cannot be closed: {problem!r}", file=sys.stderr)
    consumers.close()


def main(bugs: Sequence[str]) -> None:
    """Print the table, a row for each bug; the first two are without any."""
    warnings.simplefilter("ignore")
    rows: list[tuple[str | None, bool]] = [(None, False), (None, True)]
    rows += [(bug, bug in OF_STATIC_MEMBERS) for bug in bugs or BUGS]
    print(f"| bug | members | {' | '.join(CLIENTS)} |\n|{'---|' * (len(CLIENTS) + 2)}")
    for bug, static in rows:
        begun = time.monotonic()
        cells = [seen(bug, kind, static=static) for kind in CLIENTS]
        members = "static" if static else "dynamic"
        print(f"| {bug or 'none'} | {members} | {' | '.join(cells)} |", flush=True)
        print(f"# {bug}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
