"""What code leaves behind when it has ended: threads, sockets, files, processes."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

SETTLES = 0.2
"""Seconds for what was told to end to be gone."""


class Things:
    """The threads, open files and child processes of this process, when this was made."""

    def __init__(self) -> None:
        self._threads = {*threading.enumerate()}
        self._files = _files()
        self._processes = _processes()

    def left(self) -> list[str]:
        """What is there now, and was not; each by its name, once it has had time to go."""
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
    """What each file descriptor is, where the system says so."""
    found = {}
    try:
        for fd in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # that of the listing itself
                found[fd.name] = str(fd.readlink())
    except OSError:
        return {}
    return found


def _kind(what: str) -> str:
    """What is behind a descriptor: a socket, a pipe or a file; nothing that Python itself opens."""
    if what.startswith(("/dev/", "anon_inode:", "/proc/")):
        return ""
    name, colon, _ = what.partition(":[")
    return name if colon else f"file {Path(what).name}"


def _processes() -> dict[str, str]:
    """The children of this process, where the system says so, by what they run."""
    found = {}
    with suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            for pid in (task / "children").read_text().split():
                found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
    return found
