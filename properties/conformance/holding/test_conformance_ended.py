"""Code that hangs, and code that leaves something behind: named, and ended all the same."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import threading
import time
from typing import Any, ClassVar

import pytest
from hypothesis import settings

from herdproof.conformance.adapter import AdapterError
from herdproof.conformance.holding.held import Hangs, Raises
from herdproof.conformance.walks.stateful import stateful
from herdproof.conformance.walks.walk import walk
from herdproof.errors import Signalled
from properties.conformance.holding.test_conformance_held import flawed
from properties.conformance.leases import LEASE, Leases
from properties.conformance.walks.test_conformance_stateful import Raising, run


def test_a_call_that_hangs_is_named_and_the_code_is_ended() -> None:
    """A call that does not return is told as a story; `end` is called all the same."""
    ended: list[str] = []

    class Hanging(Leases):
        """`expire` waits until the code is ended."""

        timeout = 1.0

        def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
            """Begin."""
            super().begin(Client)
            self.over = threading.Event()

        def expire(self) -> None:
            """The lease is over."""
            self.over.wait()

        def end(self) -> None:
            """End."""
            ended.append("end")
            self.over.set()

    with pytest.raises(Hangs, match=r"`expire` did not return within 1 s\.") as told:
        run(Hanging)

    assert told.value.deeds[-1].name == "expire"
    assert len(told.value.deeds) <= 4
    assert ended
    until = time.monotonic() + 5
    while any(t.name == "code under test" for t in threading.enumerate()):
        assert time.monotonic() < until, "the hung call came back, and its thread stayed"
        time.sleep(0.01)


def test_code_that_loops_for_ever_between_two_steps_does_not_stop_the_test() -> None:
    """A hang in `observe` is told with the step after which it came."""

    class Stuck(Leases):
        """It cannot be looked at when somebody has asked."""

        timeout = 1.0
        over = threading.Event()

        def observe(self) -> dict[str, Any]:
            """What is seen."""
            if self.core.asked:
                self.over.wait()
            return super().observe()

    try:
        walked = walk(LEASE, Stuck, {"Client": 2}, shorten=1.0)
    finally:
        Stuck.over.set()

    assert isinstance(walked.difference, Hangs)
    assert "`observe` did not return" in walked.difference.why
    assert "asks for the lease" in str(walked.difference)


class Leaving(Leases):
    """It leaves behind what `what` says."""

    what: ClassVar[str]
    things: ClassVar[list[Any]]

    def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
        """Begin something that does not end."""
        super().begin(Client)
        match self.what:
            case "thread":
                over = threading.Event()
                threading.Thread(target=over.wait, name="lease server", daemon=True).start()
                self.things.append(over)
            case "socket":
                self.things.append(socket.socket())
            case "process":
                command = [sys.executable, "-c", "input()"]
                self.things.append(subprocess.Popen(command, stdin=subprocess.PIPE))


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("thread", "the thread lease server"),
        ("socket", "an open socket"),
        ("process", "the process python"),
    ],
)
def test_what_code_leaves_behind_is_named(what: str, named: str) -> None:
    """Threads, sockets and processes that outlive `end` are named; a test does not pass then."""
    things: list[Any] = []
    adapter = type("Leaving", (Leaving,), {"what": what, "things": things})
    case: Any = stateful(LEASE, adapter, Client=2)
    case.settings = settings(max_examples=2)

    try:
        with pytest.raises(AdapterError, match=f"Leaving.end leaves behind .*{named}"):
            case("runTest").runTest()
    finally:
        for thing in things:
            _ended(thing)
    gc.collect()


def test_code_that_lives_on_leaves_nothing_behind() -> None:
    """What the adapter says to go on from run to run is not looked for at the end of one."""
    things: list[Any] = []
    adapter = type("Living", (Leaving,), {"what": "thread", "things": things, "outlives": True})
    case: Any = stateful(LEASE, adapter, Client=2)
    case.settings = settings(max_examples=2)

    case("runTest").runTest()

    assert things
    for thing in things:
        _ended(thing)


def _ended(thing: Any) -> None:
    match thing:
        case threading.Event():
            thing.set()
        case socket.socket():
            thing.close()
        case subprocess.Popen():
            thing.communicate()


@pytest.mark.parametrize("wrong", ["raises", "hangs"])
def test_an_end_that_fails_is_an_error_of_the_adapter(wrong: str) -> None:
    """Where `end` raises, or does not return, the test fails and says so."""

    class Endless(Leases):
        """It does not end."""

        timeout = 1.0
        over = threading.Event()

        def end(self) -> None:
            """End."""
            if wrong == "raises":
                raise OSError("busy")
            self.over.wait()

    said = {"raises": r"raised OSError: busy \(.*\)", "hangs": "did not return within 1 s"}[wrong]
    with pytest.raises(AdapterError, match=rf"Endless\.end {said}: it must close what `begin`"):
        run(Endless)
    Endless.over.set()


def test_the_code_is_ended_whatever_happens() -> None:
    """As many runs are ended as were begun, also where they differ, or raise."""
    for adapter in (Leases, Raising, flawed(Leases, "no_fence")):
        alive: list[int] = []

        class Counted(adapter):  # type: ignore[valid-type, misc]
            """It counts how many are alive."""

            alive: ClassVar[list[int]]

            def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
                """Begin."""
                super().begin(Client)
                self.alive.append(1)

            def end(self) -> None:
                """End."""
                super().end()
                self.alive.append(-1)

        Counted.alive = alive
        walk(LEASE, Counted, {"Client": 2}, runs=10)
        assert alive
        assert sum(alive) == 0


def test_code_that_ends_the_process_is_a_difference() -> None:
    """What calls `sys.exit(0)` does not end the test as if all were well."""

    class Leaving(Leases):
        """It leaves when a lease is over."""

        def expire(self) -> None:
            """Leave."""
            sys.exit(0)

    with pytest.raises(Raises, match=r"`expire` raised SystemExit: 0"):
        run(Leaving)


def test_an_end_that_ends_the_process_is_named() -> None:
    """`end` closes what there is; it does not end who called it."""

    class Leaving(Leases):
        """It leaves at its end."""

        def end(self) -> None:
            """Leave."""
            sys.exit(0)

    with pytest.raises(AdapterError, match=r"Leaving\.end raised SystemExit: 0"):
        run(Leaving)


def test_a_signal_ends_the_process_though_code_is_called() -> None:
    """SIGTERM is no fault of the code that was called when it came."""

    class Ended(Leases):
        """The process gets a signal meanwhile."""

        timeout = None

        def expire(self) -> None:
            """It comes."""
            raise Signalled(143)

    with pytest.raises(Signalled):
        walk(LEASE, Ended, {"Client": 2}, runs=10)
