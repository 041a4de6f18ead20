"""Finds what code leaves behind when it has ended: threads, sockets, files, processes."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

OPEN, TASKS = "/proc/self/fd", "/proc/self/task"
"""Where the system says what this process has open, and which threads it has."""
SETTLES = 0.2
"""Seconds for what was told to end to be gone."""


class Things:
    """The threads, open files and child processes of this process, when this was made."""

    def __init__(self) -> None:
        self._threads = {*threading.enumerate()}
        self._files = _files()
        self._processes = _processes()

    def left(self) -> list[str]:
        """The names of what is there now, and was not, once it has had time to go."""
        until = time.monotonic() + SETTLES
        while found := self._more():
            if time.monotonic() >= until:
                return found
            time.sleep(0.005)
        return []

    def _more(self) -> list[str]:
        threads = [t.name for t in threading.enumerate() if t not in self._threads]
        files = _files()
        opened = [kind for fd, kind in files.items() if self._files.get(fd) != kind]
        processes = [name for pid, name in _processes().items() if pid not in self._processes]
        return [
            *(f"the thread {_plain(name)}" for name in threads),
            *(f"an open {_kind(what)}" for what in opened if _kind(what)),
            *(f"the process {name}" for name in processes),
        ]


def _plain(thread: str) -> str:
    """A thread's name without the number that Python gave it."""
    head, _, number = thread.partition("-")
    return head if number[:1].isdigit() else thread


def _files() -> dict[str, str]:
    """The names of file descriptors' files, where the system tells them."""
    found = {}
    with suppress(OSError):
        for fd in os.listdir(OPEN):  # noqa: PTH208 - this is done for each run
            with suppress(OSError):  # that of the listing itself
                found[fd] = os.readlink(f"{OPEN}/{fd}")  # noqa: PTH115 - as above
    return found


def _kind(what: str) -> str:
    """The kind of a descriptor: a socket, a pipe or a file; empty if Python itself opened it."""
    if what.startswith(("/dev/", "anon_inode:", "/proc/")):
        return ""
    name, colon, _ = what.partition(":[")
    return name if colon else f"file {Path(what).name}"


def _processes() -> dict[str, str]:
    """The children of this process, where the system says so, by what they run."""
    found = {}
    with suppress(OSError):
        for task in os.listdir(TASKS):  # noqa: PTH208 - this is done for each run
            for pid in Path(f"{TASKS}/{task}/children").read_text().split():
                found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
    return found
