"""How long a loop is held is measured: by whatever runs in it, and not while it waits."""

from __future__ import annotations

import asyncio
import select
import socket
import time
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry

from herdproof.shells.holds import AT_ONCE, Holds


def held(*seconds: float, waits_s: float = 0.0) -> Holds:
    """What is measured of a loop that waits, and is then held for so long, in turns."""
    holds = Holds(CollectorRegistry())

    async def hold() -> None:
        """Keep the loop for a while."""
        for each in seconds:
            await asyncio.sleep(waits_s)
            began = time.thread_time()
            while time.thread_time() - began < each:
                pass

    holds.run(hold())
    return holds


def test_the_longest_hold_is_told() -> None:
    """Of many holds the longest counts, by the clock and by the thread's own time."""
    holds = held(0.001, 0.06, 0.001)

    assert 0.06 <= holds.longest_cpu_s < 0.12
    assert holds.longest_s >= 0.06


def test_to_wait_is_no_hold() -> None:
    """A loop that waits for what is to come looks at its connections."""
    assert held(0.001, waits_s=0.2).longest_cpu_s < 0.1


def test_what_prometheus_reads_is_what_was_measured() -> None:
    """Both figures are gauges of the registry."""
    registry = CollectorRegistry()
    holds = Holds(registry)
    holds.longest_s, holds.longest_cpu_s = 0.5, 0.25

    assert registry.get_sample_value("herdproof_longest_hold_seconds") == 0.5
    assert registry.get_sample_value("herdproof_longest_hold_cpu_seconds") == 0.25


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="elsewhere all are taken up")
def test_few_connections_are_taken_up_at_a_time() -> None:
    """Of many that have something to say each is heard, and few between two looks at them."""
    crowd = 5 * AT_ONCE
    heard: list[int] = []
    holds = Holds(CollectorRegistry())

    async def hear_all() -> None:
        """Take up what all of them say."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def hear(number: int, end: socket.socket) -> None:
            """Take note of who has said something."""
            end.recv(1)
            heard.append(number)
            loop.call_soon(lambda: looks.append(len(heard)))
            if len(heard) == crowd:
                done.set_result(None)

        for number in range(crowd):
            near, far = map(stack.enter_context, socket.socketpair())
            loop.add_reader(near, hear, number, near)
            far.send(b"x")
        await done

    looks: list[int] = []
    with ExitStack() as stack:
        holds.run(hear_all())

    assert sorted(heard) == [*range(crowd)]
    assert [*dict.fromkeys(looks)][:4] == [*range(AT_ONCE, crowd, AT_ONCE)]
