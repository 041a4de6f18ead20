"""Parts of the commands that serve: until a signal comes, with enough open files."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import ParamSpec

import typer

from herdproof.cli.errors import SIGNALLED
from herdproof.errors import Signalled

log = logging.getLogger(__name__)

SPARE_FILES = 64
"""Open files beside the clients' connections: ZooKeeper's, the metrics', the libraries'."""

Given = ParamSpec("Given")


def service(command: Callable[Given, None]) -> Callable[Given, None]:
    """A command that serves until it is told to end: by SIGTERM, which is no failure of its."""

    @wraps(command)
    def served(*arguments: Given.args, **options: Given.kwargs) -> None:
        try:
            command(*arguments, **options)
        except (Signalled, typer.Exit) as end:
            code = end.code if isinstance(end, Signalled) else end.exit_code
            if code != SIGNALLED + signal.SIGTERM:
                raise

    return served


async def until_signalled(serving: Coroutine[None, None, None]) -> int:
    """Serve until SIGINT or SIGTERM comes; the exit code that says which one came."""
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    came: list[int] = []

    def end(number: int) -> None:
        """Begin to end; a second signal does not wait until that is done."""
        log.info("it ends, as it is asked to by %s", signal.Signals(number).name)
        came.append(number)
        this.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    try:
        await serving
    except asyncio.CancelledError:
        if not came:
            raise
    return SIGNALLED + came[0]


def allow_open_files(connections: int, setting: str) -> None:
    """Have so many files open at once if the system lets us: each client's connection is one."""
    wanted = connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.info(
            "this system allows %d open files, so no more than about %d clients can connect "
            "(ulimit -n; the setting %s is %d)",
            allowed, allowed - SPARE_FILES, setting, connections,
        )  # fmt: skip
