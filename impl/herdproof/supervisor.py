"""
Supervises child processes: none outlives its owner, not even one that died by `kill -9`.

The owner starts one *minder*: this very file, run by a second Python that imports nothing else. It
starts the children, passes signals on, and reads its orders from a pipe. When the owner dies, in
whatever way, the operating system closes the pipe; the minder then kills its children and removes
their directory. The minder is the children's parent, so a signal can never hit a foreign process
that got the number of a dead child.

A pipe works on every POSIX system and from every thread; Linux's "signal me when my parent dies"
(`PR_SET_PDEATHSIG`) is tied to the *thread* that started the child, so only the minder, which has
one lasting thread, uses it (as a second safety, should the minder itself be killed).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_PR_SET_PDEATHSIG = 1


class Supervisor:
    """
    The owner's side: starts and signals named children, and ends them all when it is closed.

    `remove`: a directory that the minder removes once its children are dead, however it comes to
    that.
    """

    def __init__(self, remove: Path | None = None) -> None:
        command = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
        self._lock = threading.Lock()
        # A session of its own: Ctrl-C in a terminal reaches the owner, who then closes the pipe.
        self._process = subprocess.Popen(
            [*command, *([str(remove)] if remove else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(self, name: str, command: Sequence[str], log: Path) -> int:
        """Start a child, its output appended to `log`; answers with its process id."""
        return self._order({"do": "start", "name": name, "command": list(command), "log": str(log)})

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal; after `SIGKILL` the child is gone when this returns."""
        self._order({"do": "signal", "name": name, "number": int(number)})

    def ended(self, name: str) -> int | None:
        """The exit status of a child that has ended, or `None` while it runs."""
        order = {"do": "ended", "name": name}
        status = self._order(order)
        return None if status == _RUNNING else status

    def close(self) -> None:
        """Kill all children, remove their directory, and wait until that is done."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _order(self, order: Mapping[str, object]) -> int:
        """Give an order and wait until it is carried out; raises `OSError` if it could not be."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise OSError(answer["error"])
        return int(answer["result"])


_RUNNING = 1 << 20
"""Answers `ended` for a child that still runs: no exit status is that large."""


def _die_with_the_minder() -> None:
    """Run in the child before it becomes its program: Linux kills it if the minder dies."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _start(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a child as ordered."""
    with Path(order["log"]).open("ab") as log:
        return subprocess.Popen(
            order["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_the_minder if sys.platform == "linux" else None,
        )


def _obey(order: dict[str, Any], children: dict[str, subprocess.Popen[bytes]]) -> int:
    """Carry out one order; answers with a process id, an exit status, or 0."""
    name = order["name"]
    match order["do"]:
        case "start":
            children[name] = _start(order)
            return children[name].pid
        case "signal":
            children[name].send_signal(order["number"])
            if order["number"] == signal.SIGKILL:
                children[name].wait()
            return 0
        case _:
            status = children[name].poll()
            return _RUNNING if status is None else status


def mind(orders: IO[str], answers: IO[str], remove: Path | None) -> None:
    """The minder's life: one order a line until the pipe closes, then end every child."""
    children: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for line in orders:
            try:
                answer: dict[str, object] = {"result": _obey(json.loads(line), children)}
            except OSError as problem:
                answer = {"error": str(problem)}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        for child in children.values():
            child.kill()
        for child in children.values():
            child.wait()
        if remove is not None:
            shutil.rmtree(remove, ignore_errors=True)


if __name__ == "__main__":
    # An owner that dies while an answer is under way must not end the minder before its work is
    # done.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.chdir("/")
    mind(sys.stdin, sys.stdout, Path(sys.argv[1]) if len(sys.argv) > 1 else None)
