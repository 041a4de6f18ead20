"""
The load of `benchmarks/broker`: clients that ask again and again, each when it is answered.

    python benchmarks/broker_load.py 127.0.0.1:9092 heartbeat --clients 20 --seconds 5

Each client is the only member of a group of its own. It prints a line of JSON once all of them have
joined and have been answered once, and another one at the end: how many requests were answered in
how many seconds, the median of one's milliseconds, and this process's CPU. An answer that is
another one than the first ends it with {"error": why}: a refusal has no speed.

`idle` opens connections and asks nothing; it prints a line, and ends when its stdin does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # this file is run as a script, and imports its neighbours

from benchmarks import kafka_wire as kafka  # noqa: E402
from benchmarks.kafka_wire import Api  # noqa: E402

TOPIC = "orders"
MANY = 20
"""Offsets in a commit, or a fetch, of many."""
FETCH_BYTES = 1 << 16


class Asking(asyncio.Protocol):
    """One client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answered = 0
        self.took: list[float] = []
        self._buffer = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._again = b""
        self._expected = b""
        self._since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is connected."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    async def ask(self, api: Api, body: bytes) -> bytes:
        """Ask once."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(kafka.request(api, 1, self.name, body))
        return await self._answer

    def ask_on(self, api: Api, body: bytes, expected: bytes) -> None:
        """Ask the same from now on, which is to be answered the same."""
        self._again = kafka.request(api, 1, self.name, body)
        self._expected = expected
        self._since = time.perf_counter()
        self.transport.write(self._again)

    def data_received(self, data: bytes) -> None:
        """An answer came, or a part of it."""
        self._buffer += data
        for _, answer in kafka.split(self._buffer):
            if self._answer is not None:
                self._answer.set_result(answer)
                self._answer = None
            elif answer == self._expected:
                now = time.perf_counter()
                self.took.append(now - self._since)
                self.answered += 1
                self._since = now
                self.transport.write(self._again)
            else:
                raise SystemExit(f"{self.name} was answered {answer[:80].hex(' ')}")

    async def joined(self) -> tuple[int, str]:
        """Become the only member of a group: its generation and member id."""
        body = kafka.join_group(self.name, "", (TOPIC,), 45_000, 60_000)
        joined = kafka.joined_group(await self.ask(Api.JOIN_GROUP, body))
        if joined.error is kafka.Error.MEMBER_ID_REQUIRED:
            body = kafka.join_group(self.name, joined.member, (TOPIC,), 45_000, 60_000)
            joined = kafka.joined_group(await self.ask(Api.JOIN_GROUP, body))
        plan = {joined.member: kafka.assignment(TOPIC, range(MANY))}
        body = kafka.sync_group(self.name, joined.generation, joined.member, plan)
        kafka.synced_group(await self.ask(Api.SYNC_GROUP, body))
        return joined.generation, joined.member


async def question(client: Asking, what: str) -> tuple[Api, bytes]:
    """What a client asks again and again."""
    if what == "fetch_records":
        return Api.FETCH, kafka.fetch(TOPIC, 0, 0, FETCH_BYTES)
    generation, member = await client.joined()
    at = client.name, generation, member
    match what:
        case "heartbeat":
            return Api.HEARTBEAT, kafka.heartbeat(*at)
        case "commit":
            return Api.OFFSET_COMMIT, kafka.offset_commit(*at, TOPIC, {0: 7})
        case "commit_many":
            offsets = dict.fromkeys(range(MANY), 7)
            return Api.OFFSET_COMMIT, kafka.offset_commit(*at, TOPIC, offsets)
        case "fetch_offsets":
            offsets = dict.fromkeys(range(MANY), 7)
            await client.ask(Api.OFFSET_COMMIT, kafka.offset_commit(*at, TOPIC, offsets))
            return Api.OFFSET_FETCH, kafka.offset_fetch(client.name, TOPIC, range(MANY))
    raise SystemExit(f"{what} is no question")


async def measure(host: str, port: int, what: str, clients: int, seconds: float) -> None:
    """Let all clients ask for so long."""
    loop = asyncio.get_running_loop()
    asking: list[tuple[Asking, Api, bytes, bytes]] = []
    for number in range(clients):
        _, client = await loop.create_connection(lambda n=number: Asking(f"{what}-{n}"), host, port)
        api, body = await question(client, what)
        asking.append((client, api, body, await client.ask(api, body)))
    print(json.dumps({"clients": len(asking)}), flush=True)
    cpu, begun = time.process_time(), time.perf_counter()
    for client, api, body, expected in asking:
        client.ask_on(api, body, expected)
    await asyncio.sleep(seconds)
    answered = sum(client.answered for client, *_ in asking)
    took = time.perf_counter() - begun
    print(json.dumps({
        "answered": answered, "seconds": took,
        "median_ms": 1000 * median(each for client, *_ in asking for each in client.took),
        "cpu_seconds": time.process_time() - cpu,
    }), flush=True)  # fmt: skip


async def idle(host: str, port: int, clients: int) -> None:
    """Open connections over which one request is answered, and hold them."""
    held = []
    for number in range(clients):
        made, client = await asyncio.get_running_loop().create_connection(
            lambda n=number: Asking(f"idle-{n}"), host, port
        )
        await client.ask(Api.FIND_COORDINATOR, kafka.find_coordinator("g"))
        held.append(made)
    print(json.dumps({"held": len(held)}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def main() -> None:
    """Ask."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("what")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    host, _, port = args.address.rpartition(":")
    try:
        if args.what == "idle":
            asyncio.run(idle(host, int(port), args.clients))
        else:
            asyncio.run(measure(host, int(port), args.what, args.clients, args.seconds))
    except (SystemExit, OSError, ValueError) as problem:
        print(json.dumps({"error": str(problem)}), flush=True)


if __name__ == "__main__":
    main()
