"""`herdproof zookeeper`: a real ZooKeeper on this machine, until Ctrl-C; nothing of it stays."""

from __future__ import annotations

import sys
import threading
from typing import Annotated

import typer

from herdproof.report.render import Output
from herdspec.language.errors import UsageError

LOOK_EVERY_S = 1.0


def zookeeper(
    servers: Annotated[int, typer.Option(help="1, or an ensemble of 3.")] = 1,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="The first server's port; free ones are chosen."),
    ] = None,
) -> None:
    """Run a real ZooKeeper until Ctrl-C or SIGTERM. Its first line of output is its address."""
    from herdproof.servers import ServerFailed
    from herdproof.zookeeper.embedded import EmbeddedZooKeeper

    if servers not in (1, 3):
        raise UsageError(f"--servers {servers}: run 1 server, or an ensemble of 3")
    running = EmbeddedZooKeeper(servers, port=port)
    with Output().progress("starting ZooKeeper"):
        running.start()
    try:
        print(running.hosts, flush=True)
        print("Press Ctrl-C to stop it; its data go with it.", file=sys.stderr, flush=True)
        never = threading.Event()
        while not never.wait(LOOK_EVERY_S):
            dead = [hosts for s, hosts in enumerate(running.server_hosts) if not running.alive(s)]
            if dead:
                raise ServerFailed(f"The ZooKeeper server at {', '.join(dead)} has ended.")
    finally:
        running.stop()
