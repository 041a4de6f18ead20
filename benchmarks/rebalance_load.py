"""
The load of `benchmarks/rebalance`: a crowd of members in one process, over real sockets.

    python benchmarks/rebalance_load.py central 127.0.0.1:9192 --groups 1 --members 100 --more 3
    python benchmarks/rebalance_load.py kafka 127.0.0.1:9092 --groups 1000 --members 10

It forms the groups, then obeys a command a line on stdin; each is answered by a line of JSON, and
so is the forming:

    join        one more member to every group, all at once; until the last one has its assignment
    look        nothing but this process's CPU so far
    failover    answered at once, and again when every group has settled in a later epoch; Kafka's
                members, which stay what they are, when all were answered a heartbeat by another one

Times (`begun`, `ended`, `seconds`) are of the monotonic clock, which all processes of a machine
share. Each group has one topic of so many partitions that every member will get one. What goes
wrong ends the process with {"error": why}; nothing is waited for longer than `--patience` seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import time
from collections.abc import Awaitable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # this file is run as a script, and imports its neighbours

from benchmarks import kafka_wire as kafka  # noqa: E402
from benchmarks.rebalance_members import (  # noqa: E402
    Address,
    CentralMember,
    Gathering,
    KafkaMember,
    Member,
)
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings  # noqa: E402
from herdproof.protocols.central_coordinator.wire.conversation import Conversation  # noqa: E402
from herdproof.protocols.central_coordinator.wire.framing import Form  # noqa: E402
from herdproof.protocols.central_coordinator.wire.messages import Consult, ConsultResponse, Frame  # noqa: E402

Figures = dict[str, Any]
T = TypeVar("T")

AT_ONCE = 40
"""How many connections are opened at a time: Kafka lets 50 wait (socket.listen.backlog.size)."""
ENTERING = 1_000
"""How many members of ours wait to be accepted at a time."""
ASK_AGAIN_S = 0.05
LEAVE_S = 10.0
KAFKAS_BACKOFF = ConsumerSettings(backoff_ms=100, backoff_max_ms=1_000)
"""Kafka's clients wait so long before they ask again (retry.backoff.ms, and at most)."""
TOPIC = "orders"


class LoadFailed(Exception):
    """What went wrong, so that nothing can be measured."""


# ── Who coordinates ─────────────────────────────────────────────────────────────────────────


async def consult(address: Address, patience_s: float) -> Address | None:
    """Where the central coordinator listens, by the word of the one at `address`."""
    conversation = Conversation(Form.VERSION_1)
    data = await exchange(address, conversation.encode(Frame(Consult(), 1)), patience_s)
    [frame] = conversation.feed(data)
    answer = frame.message
    assert isinstance(answer, ConsultResponse), answer
    known = {broker.id: (broker.host, broker.port) for broker in answer.brokers}
    return known.get(answer.coordinator_id)


async def find_coordinator(address: Address, patience_s: float) -> Address | None:
    """Where Kafka's coordinator of a group listens, by the word of the broker at `address`."""
    body = kafka.find_coordinator(group_name(0))
    asked = kafka.request(kafka.Api.FIND_COORDINATOR, 1, "load", body)
    buffer = bytearray(await exchange(address, asked, patience_s))
    [(_, told)] = kafka.split(buffer)
    error, found = kafka.found_coordinator(told)
    return None if error else found


async def exchange(address: Address, asked: bytes, patience_s: float) -> bytes:
    """Send one request over a connection of its own; the answer, with its size before it."""
    async with asyncio.timeout(patience_s):
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(asked)
            size = await reader.readexactly(4)
            return size + await reader.readexactly(int.from_bytes(size, "big"))
        finally:
            writer.close()


def group_name(number: int) -> str:
    """The name of the group of this number."""
    return f"group-{number}"


# ── The crowd ───────────────────────────────────────────────────────────────────────────────


class Crowd:
    """All members of all groups."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.topic = TOPIC
        self.partitions: int = args.members + args.more
        self.interval_s: float = args.interval_ms / 1000
        self.session_timeout_ms: int = args.session_ms
        self.patience_s: float = args.patience
        self.last_asked = 0.0
        self._is_kafka: bool = args.protocol == "kafka"
        self._ask = find_coordinator if self._is_kafka else consult
        self._addresses: list[Address] = args.addresses
        self._members: int = args.members
        self._groups = [Gathering(group_name(n), self.partitions) for n in range(args.groups)]
        self._opening = asyncio.Semaphore(AT_ONCE)
        # Kafka accepts nobody before all members of a group have asked for it.
        everybody = len(self._groups) * self.partitions
        self._entering = asyncio.Semaphore(everybody if self._is_kafka else ENTERING)
        self._chance = random.Random(1)
        self._all: list[Member] = []
        self._follows = self._leaving = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def form(self) -> Figures:
        """Find the coordinator, and have every group join."""
        self._coordinator = await self._find()
        return await self._add(self._members)

    async def join(self) -> Figures:
        """One more member to every group."""
        return await self._add(1)

    async def follow(self) -> Figures:
        """From now on members who lose their connection come back; until all have settled anew."""
        return await self._settle(time.monotonic())

    async def leave(self) -> None:
        """All members leave; who has not been let go in time is left."""
        self._leaving = True
        for member in self._all:
            member.leave()
        await asyncio.wait([member.over for member in self._all], timeout=LEAVE_S)

    def stand_by(self) -> None:
        """The coordinator is about to go."""
        self._follows = True
        for group in self._groups:
            group.expect(0)

    async def _find(self) -> Address:
        """Where the coordinator listens, asking until somebody knows."""
        for address in itertools.cycle(self._addresses):
            if found := await self._ask(address, self.patience_s):
                return found
            await asyncio.sleep(ASK_AGAIN_S)
        raise AssertionError("a cycle does not end")

    async def _add(self, count: int) -> Figures:
        """So many more members to every group, all at once."""
        kind = KafkaMember if self._is_kafka else CentralMember
        begun = time.monotonic()
        newcomers: list[Member] = []
        for group in self._groups:
            names = range(group.size, group.size + count)
            newcomers += [kind(self, group, f"{group.name}-{n:04}") for n in names]
            group.expect(count)
        self._all += newcomers
        cpu = time.process_time()
        await asyncio.gather(*map(self._enter, newcomers))
        figures = await self._settle(begun)
        return {**figures, "cpu_seconds": time.process_time() - cpu}

    async def _enter(self, member: Member) -> None:
        """A member connects and is accepted, or all of it fails."""
        async with self._entering:
            async with self._opening:
                await member.connect(self._coordinator)
            accepted = await member.accepted
        if not accepted:
            raise LoadFailed(f"{member.name} was refused by the coordinator; its log says why")

    def _task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda t: self.fail(None if t.cancelled() else t.exception()))

    async def _settle(self, begun: float) -> Figures:
        """Wait until every group has settled."""
        ended = max(await asyncio.gather(*(group.settled for group in self._groups)))
        return {
            "begun": begun, "ended": ended, "seconds": ended - begun,
            "settling_seconds": ended - self.last_asked,
        }  # fmt: skip

    async def within(self, what: Awaitable[Figures]) -> Figures:
        """The result of something that must not take too long."""
        try:
            async with asyncio.timeout(self.patience_s):
                return await self.unless_it_fails(what)
        except TimeoutError:
            unsettled = sum(not group.settled.done() for group in self._groups)
            raise LoadFailed(
                f"{unsettled} of {len(self._groups)} groups did not settle within "
                f"{self.patience_s:g} s (--patience)"
            ) from None

    async def unless_it_fails(self, what: Awaitable[T]) -> T:
        """The result of something, unless anything fails meanwhile that nobody awaits."""
        task: asyncio.Future[T] = asyncio.ensure_future(what)
        either: set[asyncio.Future[Any]] = {task, self._failed}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._failed.done():
            self._failed.result()
        return await task

    # ── Trouble ─────────────────────────────────────────────────────────────────────────────

    def fail(self, problem: BaseException | None) -> None:
        """Something has failed that nobody awaits."""
        if problem is not None and not self._failed.done():
            self._failed.set_exception(problem)

    def lost(self, member: Member) -> None:
        """A member's connection is over: it comes back, if that is what is measured."""
        if self._follows and not self._leaving:
            self._task(self._come_back(member))
        elif not self._leaving:
            self.fail(LoadFailed(f"the coordinator closed the connection of {member.name}"))

    async def _come_back(self, member: Member) -> None:
        """Ask the known ones until one leads and accepts, waiting as the protocol's clients do."""
        settings = KAFKAS_BACKOFF if self._is_kafka else ConsumerSettings()
        spread = self._chance.random()
        addresses = itertools.cycle(self._chance.sample(self._addresses, len(self._addresses)))
        failures = 0
        while True:
            for _ in self._addresses:
                try:
                    leader = await self._ask(next(addresses), self.patience_s)
                    if leader:
                        await member.connect(leader)
                        if await member.accepted:
                            return
                except (OSError, asyncio.IncompleteReadError):
                    continue
            failures += 1
            await asyncio.sleep(settings.backoff_after(failures, spread) / 1000)


# ── The process ─────────────────────────────────────────────────────────────────────────────


async def obey(args: argparse.Namespace) -> None:
    """Form the groups, then carry out what comes on stdin; when it is closed, all leave."""
    crowd, loop = Crowd(args), asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, told: crowd.fail(problem_of(told)))
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    tell(await crowd.within(crowd.form()))
    while command := (await crowd.unless_it_fails(commands.readline())).decode().strip():
        match command:
            case "join":
                tell(await crowd.within(crowd.join()))
            case "look":
                tell({"cpu_seconds": time.process_time()})
            case "failover":
                crowd.stand_by()
                tell({"stands_by": True})
                tell(await crowd.within(crowd.follow()))
            case _:
                raise LoadFailed(f"{command} is no command")
    await crowd.leave()


def problem_of(told: Mapping[str, Any]) -> BaseException:
    """What asyncio says that went wrong in a callback."""
    problem: BaseException = told.get("exception") or LoadFailed(told["message"])
    return problem


def tell(figures: Figures) -> None:
    """Print a line of JSON."""
    print(json.dumps(figures), flush=True)


def addresses(text: str) -> list[Address]:
    """The addresses of host:port,host:port."""
    each = (one.rpartition(":") for one in text.split(","))
    return [(host, int(port)) for host, _, port in each]


def main() -> None:
    """Measure what the command line and stdin name."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("protocol", choices=("central", "kafka"))
    parser.add_argument("addresses", type=addresses, help="host:port, of any broker (or several)")
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--members", type=int, default=10, help="of each group")
    parser.add_argument("--more", type=int, default=1, help="how many will join each group later")
    parser.add_argument("--interval-ms", type=int, default=3_000, help="of pings, of heartbeats")
    parser.add_argument("--session-ms", type=int, default=10_000, help="a silent member's time")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds")
    try:
        asyncio.run(obey(parser.parse_args()))
    except Exception as problem:
        tell({"error": f"{type(problem).__name__}: {problem}"})
        raise SystemExit(1) from problem


if __name__ == "__main__":
    main()
