"""
`herdproof elect`: one broker's elector against any ZooKeeper, until Ctrl-C.

One line on stdout for each change: `elected epoch=3`, `deposed epoch=3`. It needs neither numpy nor
z3 nor pyspark.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, TextIO

import typer

from herdspec.language.errors import UsageError


def elect(
    zookeeper: Annotated[
        str, typer.Option("--zookeeper", metavar="HOSTS", help="host:port,host:port")
    ],
    broker: Annotated[str, typer.Option("--broker", metavar="ID", help="This broker's id.")],
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append a line for each step to FILE.")
    ] = None,
    run: Annotated[
        str,
        typer.Option(metavar="NAME", help="What the traces of all brokers together are called."),
    ] = "election",
    session_timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How long a dead leader stays.")
    ] = 10.0,
    leader_path: Annotated[str | None, typer.Option(help="The leader's node.")] = None,
    epoch_path: Annotated[str | None, typer.Option(help="The epoch's node.")] = None,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Print each change as a line of JSON.")
    ] = False,
) -> None:
    """Run one broker's elector until Ctrl-C or SIGTERM. Then it resigns."""
    from herdproof.conformance.traces.tracer import open_trace
    from herdproof.protocols.election.elector import ElectionPaths
    from herdproof.protocols.election.shell import ZkElection
    from herdproof.protocols.election.tracing import ElectorTracer

    logging.basicConfig(format="herdproof: %(message)s", level=logging.WARNING)
    default = ElectionPaths()
    paths = ElectionPaths(leader_path or default.leader, epoch_path or default.epoch)
    with ExitStack() as stack:
        observe = None
        if trace is not None:
            observe = ElectorTracer(broker, run, stack.enter_context(opened(trace, open_trace)))
        election = ZkElection(
            zookeeper,
            broker,
            on_elected=teller("elected", broker, json_lines),
            on_deposed=teller("deposed", broker, json_lines),
            session_timeout_s=session_timeout,
            paths=paths,
            observe=observe,
        )
        stack.enter_context(election)
        election.stand()
        threading.Event().wait()


def opened(trace: Path, open_trace: Callable[[Path], TextIO]) -> TextIO:
    """The trace, opened to append to; a place that cannot be written to is misuse."""
    try:
        return open_trace(trace)
    except OSError as error:
        raise UsageError(
            f"--trace {trace}: it cannot be written ({error.strerror or error})"
        ) from None


def teller(what: str, broker: str, json_lines: bool) -> Callable[[int], None]:
    """The printer of one kind of change; called from the elector's own thread."""

    def tell(epoch: int) -> None:
        if json_lines:
            print(json.dumps({"broker": broker, "event": what, "epoch": epoch}), flush=True)
        else:
            print(f"{what} epoch={epoch}", flush=True)

    return tell
