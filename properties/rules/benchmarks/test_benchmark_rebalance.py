"""The benchmark beside Kafka: its codec, its crowd on a played coordinator, and what it says."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import kafka_wire as kafka
from benchmarks.kafka_wire import Api, Error
from benchmarks.processes import Load
from benchmarks.rebalance_members import Gathering
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.wire.conversation import Conversation
from herdproof.protocols.central_coordinator.wire.messages import (
    BrokerInfo,
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
    Register,
    RegisterResponse,
    Start,
)
from herdproof.testing import LocalBroker

ROOT = Path(__file__).parents[3]
HOST = "127.0.0.1"

# ── Kafka's wire ────────────────────────────────────────────────────────────────────────────


def test_a_request_to_kafka_has_the_bytes_that_the_guide_lays_out() -> None:
    """A heartbeat (key 12, version 3), byte by byte: header v1, then its four fields."""
    body = kafka.heartbeat("g", 7, "m-1")

    assert kafka.request(Api.HEARTBEAT, 5, "me", body) == bytes.fromhex(
        "0000001a"  # the size of what follows
        "000c 0003 00000005 0002 6d65"  # key, version, correlation id, client id
        "0001 67 00000007 0003 6d2d31 ffff"  # group, generation, member, no instance
    )


def test_a_join_offers_one_protocol_with_the_topics() -> None:
    """JoinGroup v5: both timeouts, the protocol type, and a subscription of version 0."""
    body = kafka.join_group("g", "", ["t"], 10_000, 60_000)

    assert body == bytes.fromhex(
        "0001 67 00002710 0000ea60 0000 ffff"  # group, session, rebalance, no member, no instance
        "0008 636f6e73756d6572 00000001 0005 72616e6765"  # "consumer"; one protocol, "range"
        "0000000d 0000 00000001 0001 74 ffffffff"  # version 0, one topic, no user data
    )


def test_answers_of_kafka_are_split_and_read() -> None:
    """Two answers in three pieces; the joined leader is told its members, and what they want."""
    joined = bytes.fromhex(
        "00000000 0000 00000003 0005 72616e6765 0001 61 0001 61 00000001 0001 61 ffff 00000002 abcd"
    )
    synced = bytes.fromhex(
        "00000000 0000 00000017 0000 00000001 0001 74 00000002 00000004 00000005 ffffffff"
    )
    data = kafka.blob(kafka.INT32.pack(8) + joined) + kafka.blob(kafka.INT32.pack(9) + synced)
    buffer = bytearray()
    found = []
    for begin, end in ((0, 3), (3, 50), (50, len(data))):
        buffer += data[begin:end]
        found += list(kafka.split(buffer))

    assert [correlation_id for correlation_id, _ in found] == [8, 9]
    assert kafka.joined_group(found[0][1]) == kafka.Joined(
        Error.NONE, 3, "a", "a", {"a": b"\xab\xcd"}
    )
    assert kafka.synced_group(found[1][1]) == (Error.NONE, [4, 5])
    assert not buffer


def test_what_a_leader_assigns_is_what_a_member_reads() -> None:
    """An assignment is read back as it was written."""
    written = kafka.assignment("t", range(3))

    assert kafka.partitions_of(kafka.Reader(written)) == [0, 1, 2]


# ── When a group has settled ────────────────────────────────────────────────────────────────


def gathered(*told: tuple[str, tuple[int, int], list[int]]) -> bool:
    """Whether a group of two members and three partitions has settled, by what they were told."""

    async def tell() -> bool:
        """Tell the figures one after the other."""
        group = Gathering("g", 3)
        group.expect(2)
        for member, generation, partitions in told:
            group.assigned(member, generation, partitions)
        return group.settled.done()

    return asyncio.run(tell())


def test_a_group_has_settled_when_all_is_given_away_once_in_one_generation() -> None:
    """Whatever an earlier generation said, and in whichever order the members hear of it."""
    assert gathered(("a", (1, 1), [0, 1, 2]), ("b", (1, 2), [2]), ("a", (1, 2), [0, 1]))


@pytest.mark.parametrize(
    "told",
    [
        [("a", (1, 1), [0, 1, 2])],
        [("a", (1, 1), [0, 1]), ("b", (1, 2), [2])],
        [("a", (1, 1), [0, 1]), ("b", (1, 1), [1, 2])],
        [("a", (1, 1), [0]), ("b", (1, 1), [2])],
        [("a", (1, 2), [0, 1]), ("b", (1, 1), [2])],
    ],
    ids=["one is not told", "two generations", "one twice", "one left over", "an older one"],
)
def test_a_wrong_assignment_has_no_speed(
    told: list[tuple[str, tuple[int, int], list[int]]],
) -> None:
    """A group has not settled before every member has its part of one whole assignment."""
    assert not gathered(*told)


# ── The load's process ──────────────────────────────────────────────────────────────────────


class Played:
    """A coordinator that gives each of three partitions to whoever registers next."""

    def __init__(self, refuses: bool) -> None:
        self._refuses = refuses
        self._members = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        conversation = Conversation()
        while data := await reader.read(65_536):
            for frame in conversation.feed(data):
                for answer in self._answers(frame):
                    writer.write(conversation.encode(answer))
        writer.close()

    def _answers(self, frame: Frame) -> list[Frame]:
        match frame.message:
            case Consult():
                broker = BrokerInfo("", 1, HOST, self.port)
                return [Frame(ConsultResponse(ErrorCode.NONE, 1, (broker,)), frame.correlation_id)]
            case Register() if self._refuses:
                error = ErrorCode.GROUP_FULL
                return [Frame(RegisterResponse(error), frame.correlation_id, 1, error=error)]
            case Register():
                self._members += 1
                start = Start((Offset("orders", str(self._members - 1), 0),))
                return [
                    Frame(RegisterResponse(ErrorCode.NONE), frame.correlation_id, 1),
                    Frame(start, 1, epoch=1, generation=1),
                ]
            case _:
                return []


async def load_said(commands: str, *, refuses: bool = False, more: int = 0) -> list[Any]:
    """What the load says, with three members, to these commands."""
    played = Played(refuses)
    server = await asyncio.start_server(played.serve, HOST, 0)
    played.port = server.sockets[0].getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(ROOT / "benchmarks" / "rebalance_load.py"), "central",
        f"{HOST}:{played.port}", "--members", "3", "--more", str(more), "--patience", "2",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    said, _ = await asyncio.wait_for(process.communicate(commands.encode()), 60)
    server.close()
    return [json.loads(line) for line in said.splitlines()]


def test_the_load_tells_when_all_have_their_assignment() -> None:
    """Three members of a played coordinator form their group, and use CPU of their own."""
    [formed, look] = asyncio.run(load_said("look\n"))

    assert 0 < formed["seconds"] < 60
    assert formed["begun"] + formed["seconds"] == pytest.approx(formed["ended"])
    assert look["cpu_seconds"] > 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"refuses": True}, "group-0-000. was refused by the coordinator"),
        ({"more": 1}, "1 of 1 groups did not settle within 2 s"),
    ],
    ids=["refused", "a partition is nobody's"],
)
def test_the_load_says_why_there_is_no_figure(options: dict[str, Any], why: str) -> None:
    """Where members are refused, or are never assigned everything, nothing is measured."""
    [said] = asyncio.run(load_said("", **options))

    assert re.search(why, said["error"])


# ── The benchmark ───────────────────────────────────────────────────────────────────────────


def test_kafkas_members_go_on_where_another_coordinates() -> None:
    """Who loses its connection looks for the coordinator, and is a member still: nobody rejoins."""
    with LocalBroker({"orders": 3}) as broker, Load(
        "kafka", broker.bootstrap, groups=1, members=3, more=0, interval_ms=100, session_ms=6_000
    ) as load:  # fmt: skip
        formed = load.formed
        joins = len(broker.asked("JoinGroup"))
        load.ask("failover")
        broker.failover()
        broker.cut()
        followed = load.answer()

        assert formed["ended"] < followed["begun"] < followed["ended"]
        assert len(broker.asked("JoinGroup")) == joins


def test_the_benchmark_says_what_it_does() -> None:
    """`benchmarks/rebalance --help` runs, and names its options."""
    command = [sys.executable, str(ROOT / "benchmarks" / "rebalance"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, shlex.join(command)
    assert all(option in done.stdout for option in ("--quick", "--json"))
