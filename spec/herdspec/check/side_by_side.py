"""
Work carried out side by side, by as many processes as there are processors.

Each process is a copy of this one (it is *forked*), since what there is to do are functions with
all that they refer to, which cannot be sent; what comes of them can. A process that dies is an
error and not a result, and who has lost its parent ends. Where a process cannot be copied,
everything is done in turn.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import perf_counter
from typing import Any, Generic, TypeVar

from herdspec.language.errors import UsageError

R = TypeVar("R")
Tell = Callable[[str, float | None], None]
"""Told how far something is: a few words, and which fraction is done, where that is known."""
Work = Callable[[int, Tell], R]
"""Does what has this number."""

OFTEN = 0.1
"""Seconds between two messages of how far something is."""
PATIENCE = 10.0
"""Seconds that a process has to end what it has begun elsewhere, once it is let go."""
ORPHANED = 1.0
"""Seconds until a process notices, at the latest, that nobody waits for it any more."""

_at_a_time = 1


def processors() -> int:
    """The number of processors for this process: its share, where others work beside it."""
    if hasattr(os, "sched_getaffinity"):
        all_of_them = len(os.sched_getaffinity(0))
    else:
        all_of_them = os.cpu_count() or 1
    return max(1, all_of_them // _at_a_time)


@contextmanager
def side_by_side(work: Work[R], order: Sequence[int], processes: int) -> Iterator[Work[R]]:
    """
    Begin to do what has these numbers, in this order; yields what waits for the result of one.

    What is not waited for is given up at the end.
    """
    at_a_time = min(processes, len(order))
    if at_a_time < 2 or sys.platform != "linux":
        yield work
        return
    crew = Crew(work, order, at_a_time)
    try:
        yield crew.result
    finally:
        crew.end()


class Crew(Generic[R]):
    """Processes that do what is waiting, each one thing after another."""

    def __init__(self, work: Work[R], order: Sequence[int], processes: int) -> None:
        self.waiting = list(reversed(order))
        self.found: dict[int, R] = {}
        self.workers = [_Worker(work, processes) for _ in range(processes)]
        for worker in self.workers:
            self._go_on(worker)

    def result(self, number: int, tell: Tell) -> R:
        """Wait for the result of a number; until it is there, tell how far it is."""
        while number not in self.found:
            busy = [worker for worker in self.workers if worker.number >= 0]
            ready = wait([worker.connection for worker in busy])
            for worker in busy:
                if worker.connection in ready:
                    self._hear(worker, number, tell)
        return self.found.pop(number)

    def _hear(self, worker: _Worker, number: int, tell: Tell) -> None:
        """Take a message: how far it is, what came of it, or why nothing did."""
        kind, said = worker.heard()
        if kind == "told":
            if worker.number == number:
                tell(*said)
            return
        if kind == "failed":
            raise said
        self.found[worker.number] = said
        self._go_on(worker)

    def _go_on(self, worker: _Worker) -> None:
        worker.number = -1
        if self.waiting:
            worker.number = self.waiting.pop()
            worker.connection.send(worker.number)

    def end(self) -> None:
        """Let all go, whatever they do; who cannot end in time is killed."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(PATIENCE)
            worker.process.kill()
            worker.process.join()
            worker.connection.close()


class _Worker:
    """One process, and the number of what it does now (-1: nothing)."""

    def __init__(self, work: Work[Any], processes: int) -> None:
        context = get_context("fork")
        self.number = -1
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, theirs, processes, os.getpid()))
        self.process.start()
        theirs.close()  # so that its end is noticed here

    def heard(self) -> tuple[str, Any]:
        """The next message; raises `UsageError` where the process has died."""
        try:
            said: tuple[str, Any] = self.connection.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            what = f"a process that carried out a check died (exit code {code})"
            raise UsageError(f"{what}: perhaps there was not enough memory") from None
        return said


@dataclass
class _Renderer:
    """Tells the other side how far something is, not too often."""

    connection: Connection
    last: float = 0.0

    def __call__(self, words: str, fraction: float | None) -> None:
        if perf_counter() - self.last > OFTEN:
            self.last = perf_counter()
            self.connection.send(("told", (words, fraction)))


def _end_after(parent: int) -> None:
    """End this process once its parent is gone (it was killed): an exploration fills memory."""
    while os.getppid() == parent:
        time.sleep(ORPHANED)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(1)


def _serve(work: Work[Any], connection: Connection, processes: int, parent: int) -> None:
    """Do what is asked for, one thing after another, until this process is ended."""
    global _at_a_time
    _at_a_time *= processes
    gc.freeze()  # what is there by now stays: nobody need look through it again and again
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that it ends what it has begun
    threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    while True:
        number = connection.recv()
        try:
            connection.send(("done", work(number, _Renderer(connection))))
        except Exception as error:
            error.add_note(traceback.format_exc())
            try:
                connection.send(("failed", error))
            except Exception:  # it cannot be sent: its words can
                connection.send(("failed", RuntimeError(traceback.format_exc())))
