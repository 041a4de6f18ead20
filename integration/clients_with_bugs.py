"""
Which clients live with which of Kafka's historical bugs, measured.

    python -m integration.clients_with_bugs [BUG …]

Two consumers of each library, dynamic and static ones, are restarted one after the other, with a
slow handler and a failover; a static one also in the middle of a rebalance, while assignments are
awaited. Then all records must have been delivered, and the contract kept. A bug that does not show
here may show elsewhere: the lines say what was seen.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from herdproof.errors import NotInTime
from herdproof.protocols.group_protocol.bugs.registry import BUGS
from herdproof.protocols.group_protocol.testing.scenarios import SCENARIOS, Stage
from herdproof.testing import LocalBroker
from integration.example_consumers import KINDS, ExampleConsumers

PATIENCE_S = 30.0
LIVED_THROUGH = ("rolling_restart", "slow_handler", "failover")


def seen(bug: str | None, kind: str, *, static: bool) -> str:
    """What was seen of a library's consumers with a bug: `settles`, and what was broken."""
    with LocalBroker(bug=bug) as broker:
        consumers = KINDS[kind](broker)
        consumers.is_static = static
        stage = Stage(broker, consumers, PATIENCE_S)
        try:
            for name in consumers.names:
                stage.start(name)
            stage.produce()
            stage.settle()
            for scenario in LIVED_THROUGH:
                SCENARIOS[scenario](stage)
            if static:
                restart_in_the_middle(stage)
            came = "settles"
        except NotInTime:
            came = "does not settle"
        except Exception as problem:
            came = f"ends: {type(problem).__name__}"
        broken = broker.judge(fenced=True).sentences
        end(consumers, stage)
    return f"{came}; breaks {', '.join(broken)}" if broken else came


def restart_in_the_middle(stage: Stage) -> None:
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


def end(consumers: ExampleConsumers, stage: Stage) -> None:
    """Close what still runs, as far as it can be."""
    for name in list(stage.running):
        try:
            stage.stop(name)
        except Exception as problem:
            print(f"# {name} cannot be closed: {problem!r}", file=sys.stderr)
    consumers.close()


def main(bugs: Sequence[str]) -> None:
    """Print a line for each bug, library and kind of member; the first is without any bug."""
    warnings.simplefilter("ignore")
    for bug in (None, *(bugs or BUGS)):
        for kind in KINDS:
            for static in (False, True):
                who = f"{kind}, {'static' if static else 'dynamic'}"
                print(f"{bug or 'no bug'} | {who} | {seen(bug, kind, static=static)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
