"""
The hostile consumers of `benchmarks/hostile`: each attack is what many of them do at once.

    python benchmarks/hostile_load.py 127.0.0.1:9192 wildcards --members 300

It prints one line of JSON: in how many seconds how many were accepted, refused, or cut off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path[:0] = [str(ROOT), str(ROOT / "impl")]  # this file is run as a script

from benchmarks.central_wire import ConsumerEnd  # noqa: E402
from herdproof.consuming.offsets import Offset, OffsetReset  # noqa: E402
from herdproof.protocols.central_coordinator.wire.errors import WireError  # noqa: E402
from herdproof.protocols.central_coordinator.wire.messages import (  # noqa: E402
    Commit,
    CommitResponse,
    Frame,
    Message,
    Register,
    RegisterResponse,
    Start,
)

SESSION_MS = 30_000
AT_ONCE = 20
"""How many of those who come and go are there at a time."""
NAMED = 1_200
"""Topics in a subscription that names them: as many as a string of the wire can hold."""
SLOW = 60
"""One wildcard in so many takes a tenth of a millisecond for each topic."""
OFFSETS = 40_000
"""In one commit: its frame is just below the largest one."""


class Hostile(asyncio.Protocol):
    """One consumer that does what the protocol asks of it, but for what it names."""

    def __init__(self) -> None:
        self._end = ConsumerEnd()
        self.outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """What became of its Register: a code, or that the connection was cut."""
        self.started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The number of partitions in its first Start."""
        self.answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """What became of its Commit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is connected."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def say(self, message: Message, correlation_id: int = 1, generation: int = 0) -> None:
        """Say something."""
        frame = Frame(message, correlation_id, 0, generation, "hostile")
        self.transport.write(self._end.encode(frame))

    def register(self, group: str, name: str, topics: str) -> None:
        """Ask to be taken on."""
        self.say(Register(group, name, topics, True, OffsetReset.SMALLEST, 3_000, 3, SESSION_MS))

    def data_received(self, data: bytes) -> None:
        """The coordinator says something."""
        for frame in self._read(data):
            match frame.message:
                case RegisterResponse(error_code=code):
                    self._settle(self.outcome, code.name)
                case CommitResponse(error_code=code):
                    self._settle(self.answered, code.name)
                case Start(partitions=partitions):
                    self._settle(self.started, len(partitions))
            self.transport.write(self._end.answer(frame, ()))

    def _read(self, data: bytes) -> Iterator[Frame]:
        """The frames that have come; none of them is whole once it was refused as malformed."""
        try:
            yield from self._end.feed(data)
        except WireError:
            self._settle(self.outcome, "malformed")
            self._settle(self.answered, "malformed")

    def connection_lost(self, _why: Exception | None) -> None:
        """It is over."""
        self._settle(self.outcome, "cut")
        self._settle(self.answered, "cut")
        self._settle(self.started, 0)

    @staticmethod
    def _settle(future: asyncio.Future, value: object) -> None:  # type: ignore[type-arg]
        if not future.done():
            future.set_result(value)


async def connect(address: tuple[str, int]) -> Hostile:
    """One more of them."""
    _, hostile = await asyncio.get_running_loop().create_connection(Hostile, *address)
    return hostile


def subscriptions(attack: str, members: int) -> Iterator[str]:
    """What each member of the one group subscribes to."""
    for number in range(members):
        if attack == "wildcards":
            slow = 400 if number % SLOW == 0 else 1
            yield f"*1*topic-.*|(?:.?){{{slow}}}{number}"
        else:
            named = {f"topic-{topic:05}": 1024 - number for topic in range(NAMED)}
            yield json.dumps(named, separators=(",", ":"))


async def crowd(address: tuple[str, int], attack: str, members: int) -> Counter[str]:
    """Members of one group, all at once, until each has its part."""
    hostile = [await connect(address) for _ in range(members)]
    for number, (each, topics) in enumerate(
        zip(hostile, subscriptions(attack, members), strict=True)
    ):
        each.register(attack, f"c{number:05}", topics)
    outcomes = Counter([await each.outcome for each in hostile])
    await asyncio.gather(*(each.started for each in hostile))
    return outcomes


async def come_and_go(address: tuple[str, int], attack: str, seconds: float) -> Counter[str]:
    """Consumers who register one after the other, each in a group of its own or in vain."""
    outcomes: Counter[str] = Counter()
    end = time.monotonic() + seconds

    async def one(lane: int) -> None:
        turn = 0
        while time.monotonic() < end:
            turn += 1
            hostile = await connect(address)
            group = f"evil\n{lane}-{turn}" if attack == "refused" else f"group-{lane}-{turn}"
            hostile.register(group, "c", "!" if attack == "refused" else '{"none": 1}')
            outcomes[await hostile.outcome] += 1
            hostile.transport.abort()

    await asyncio.gather(*map(one, range(AT_ONCE)))
    return outcomes


async def commits(address: tuple[str, int], members: int) -> Counter[str]:
    """Members that commit as much as a frame can say, of partitions that are not theirs."""
    hostile = [await connect(address) for _ in range(members)]
    for number, each in enumerate(hostile):
        each.register(f"commits-{number}", "c", '{"topic-00000": 1}')
    await asyncio.gather(*(each.started for each in hostile))
    commit = Commit(tuple(Offset("topic", str(n), n) for n in range(OFFSETS)))
    for each in hostile:
        each.say(commit, 2, 1)
    return Counter([await each.answered for each in hostile])


async def attacked(args: argparse.Namespace) -> Counter[str]:
    """Carry an attack out; what became of those who took part."""
    host, _, port = args.address.rpartition(":")
    address = host, int(port)
    match args.attack:
        case "wildcards" | "streams":
            return await crowd(address, args.attack, args.members)
        case "commits":
            return await commits(address, args.members)
        case _:
            return await come_and_go(address, args.attack, args.seconds)


def main() -> None:
    """Attack, and tell what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("address", help="where the coordinator listens")
    parser.add_argument("attack", choices=["wildcards", "streams", "commits", "names", "refused"])
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    since = time.monotonic()
    outcomes = asyncio.run(attacked(args))
    print(json.dumps({"seconds": time.monotonic() - since, **dict(sorted(outcomes.items()))}))


if __name__ == "__main__":
    main()
