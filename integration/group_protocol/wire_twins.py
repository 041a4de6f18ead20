"""
The same history at our coordinator and at a real Kafka's, deed by deed, and what they answer.

Member ids are other ones at each: in what is compared they go by who was given them, and as which.
Who waits at one must wait at the other; after every deed both describe the group, which is to be
the same. Ours is in this process, so that it is known when it has nothing more to say; the real one
is waited for, for as long as `PATIENCE_S`.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest

from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.protocols.group_protocol.server.shell import GroupShell
from herdproof.protocols.group_protocol.settings import GroupSettings
from integration.group_protocol.wire_deeds import (
    PARTITIONS,
    SEATS,
    SHORT_MS,
    TOPIC,
    Asking,
    Deed,
    History,
    Seat,
    What,
)
from integration.group_protocol.wire_differences import Mismatch, Told, explanation
from properties.broker.served import WireClient, client_of, served

PATIENCE_S = 5.0
"""How long Kafka may take to answer what ours has answered."""
LAG_MS = 800
"""How much later than ours Kafka's timers may fire."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MAX_SIZE = 4
SETTINGS = GroupSettings(
    group_min_session_timeout_ms=500, group_initial_rebalance_delay_ms=0, group_max_size=MAX_SIZE,
    commits="as_kafka",
)  # fmt: skip
AS_THERE = {
    "group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0",
    "group.max.size": str(MAX_SIZE), "num.network.threads": "1", "num.io.threads": "1",
}  # fmt: skip
"""Kafka's settings, to be as ours; and to do one thing after another, as histories have them."""


@dataclass
class Twin:
    """A coordinator, and what the members of one history know of it."""

    name: str
    group: str
    newest: Mapping[int, int]
    connect: Callable[[], Any]
    seats: tuple[Seat, ...]
    admin: WireClient
    free: dict[int, WireClient] = field(default_factory=dict)
    """The connections over which nothing is waited for, by seat."""
    waiting: dict[int, asyncio.Task[Any]] = field(default_factory=dict)
    """By the number of their deed, the answers that have not come."""
    requests: dict[int, Any] = field(default_factory=dict)
    """By the number of their deed, as is all that follows."""
    asked_by: dict[int, int] = field(default_factory=dict)
    answers: dict[int, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Member ids, by which one of which seat's each is."""

    async def do(self, number: int, deed: Deed) -> Any | None:
        """Ask; what was asked, or None."""
        seat = self.seats[deed.seat]
        asking = Asking(deed, seat, self.seats, self.group, self.newest, self.names)
        request = asking.request()
        if request is not None:
            client = self.free.pop(deed.seat, None) or await self.connect()
            self.requests[number] = request
            self.asked_by[number] = deed.seat
            self.waiting[number] = asyncio.create_task(self._answer(client, deed.seat, request))
        return request

    async def _answer(self, client: WireClient, seat: int, request: Any) -> Any:
        client.send(request, request.API_VERSION)
        answer = await client.answer(patience_s=None)
        self.free.setdefault(seat, client)
        return answer

    def take(self) -> dict[int, Told]:
        """The answers that have come, by the number of their deed."""
        done = {number: task for number, task in self.waiting.items() if task.done()}
        told = {}
        for number, task in sorted(done.items()):
            del self.waiting[number]
            try:
                answer = self.answers[number] = task.result()
            except (ConnectionError, asyncio.IncompleteReadError):
                told[number] = {"connection": "ended"}
                continue
            self._name(self.asked_by[number], answer)
            told[number] = self.plain(answer.to_dict())
        return told

    def hear(self, number: int) -> None:
        """Let a member know what it was answered."""
        if number in self.answers:
            api = self.requests[number].API_KEY
            self.seats[self.asked_by[number]].heard(api, self.answers[number])

    def _name(self, seat: int, answer: Any) -> None:
        member_id = getattr(answer, "member_id", "")
        if member_id and member_id not in self.names:
            count = sum(name.startswith(f"{seat}.") for name in self.names.values())
            self.names[member_id] = f"{seat}.{count + 1}"

    def plain(self, value: Any) -> Any:
        """An answer without what may be any: ids that are drawn, the order of lists."""
        if isinstance(value, dict):
            return {
                name: self.plain(each) for name, each in value.items() if name != "throttle_time_ms"
            }
        if isinstance(value, list):
            listed = [each for each in value if self._is_ours(each)]
            return sorted(map(self.plain, listed), key=lambda each: json.dumps(each, default=str))
        if isinstance(value, str):
            named = self.names.get(value) or UUID.sub("…", value)
            return named.replace(self.group, "GROUP")
        return value

    def _is_ours(self, item: Any) -> bool:
        """Whether it is not another history's group (in the answer to ListGroups)."""
        group = item.get("group_id") if isinstance(item, dict) else None
        return not group or group.startswith(self.group)

    async def describe(self) -> Any:
        """The group as it is."""
        version = min(5, self.newest[DescribeGroupsRequest.API_KEY])
        request = DescribeGroupsRequest(version=version, groups=[self.group])
        told = await self.admin.ask(request, version)
        return self.plain(told.to_dict())["groups"][0]

    async def hang_up(self) -> None:
        """Close every connection."""
        for task in self.waiting.values():
            task.cancel()


@dataclass
class Compared:
    """What became of a history: its story, what was not the same, and whether time ran away."""

    history: History
    lines: list[str] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    answers: int = 0
    is_late: bool = False

    def story(self) -> str:
        """All that happened, for people."""
        return "\n".join([f"seed {self.history.seed}", *self.lines])


class Twins:
    """Our coordinator and Kafka's, at which histories are tried."""

    def __init__(
        self, groups: GroupShell, newest: Mapping[int, int],
        connect: Mapping[str, Callable[[], Any]], kafka: str,
    ) -> None:  # fmt: skip
        self._groups = groups
        self._newest = newest
        self._connect = connect
        self._kafka = kafka
        self.explained: Counter[str] = Counter()

    async def compare(self, history: History) -> Compared:
        """Let a history happen at both, until they differ in a way that goes on."""
        group = f"h{history.seed}-{uuid.uuid4()}"
        ours, theirs = [
            Twin(
                name, group, self._newest, connect,
                tuple(Seat(n, n in history.short) for n in range(SEATS)), await connect(),
            )
            for name, connect in self._connect.items()
        ]  # fmt: skip
        found = Compared(history)
        since = time.monotonic()
        try:
            for number, deed in enumerate(history.deeds):
                if deed.what is What.WAIT:
                    await self._wait()
                    since = time.monotonic()
                elif history.short and time.monotonic() - since > SHORT_MS / 2000:
                    found.is_late = True
                    return found
                if not await self._step(found, number, deed, ours, theirs):
                    break
        finally:
            await ours.hang_up()
            await theirs.hang_up()
        return found

    async def _step(
        self, found: Compared, number: int, deed: Deed, ours: Twin, theirs: Twin
    ) -> bool:
        """One deed at both; whether the history goes on."""
        request = None
        if deed.what is not What.WAIT:
            request = await ours.do(number, deed)
            other = await theirs.do(number, deed)
            if request is None or other is None:
                return True
            found.lines.append(f"{number} {deed.seat} {deed.what.name}: {brief(ours, request)}")
        else:
            found.lines.append(f"{number} all wait")
        await self._ours_settled(ours)
        told = ours.take()
        await self._await_kafka(number, told, ours, theirs)
        heard = theirs.take()
        goes_on = True
        for each in sorted({*told, *heard}):
            found.answers += 1
            found.lines.append(f"    {each} answered {told.get(each)}")
            if each in told and each in heard:
                ours.hear(each)
                theirs.hear(each)
            if told.get(each) != heard.get(each):
                mismatch = self._mismatch(number, each, ours, told, heard)
                goes_on &= self._note(found, mismatch)
        unlike = await self._unlike(request, ours, theirs) if goes_on else None
        if unlike is not None:
            goes_on &= self._note(found, unlike)
        return goes_on

    def _note(self, found: Compared, mismatch: Mismatch) -> bool:
        """Something is not the same; whether what follows can be compared all the same."""
        known = explanation(mismatch)
        found.lines.append(f"  ! Kafka's {mismatch.where}: {mismatch.theirs}")
        found.lines.append(f"  !   our {mismatch.where}: {mismatch.ours}")
        if known is None:
            found.mismatches.append(mismatch)
            return False
        found.lines.append(f"  that is: {known.name}")
        self.explained[known.name] += 1
        return not known.goes_apart

    def _mismatch(
        self, now: int, number: int, ours: Twin, told: Mapping[int, Told],
        heard: Mapping[int, Told],
    ) -> Mismatch:  # fmt: skip
        """The answers to a deed, which are not the same, now."""
        request = ours.requests[number]
        asked_since = [later for at, later in ours.requests.items() if at > number]
        return Mismatch(
            request, told.get(number), heard.get(number), self._kafka,
            beside=tuple(each.get("error_code", 0) for each in told.values()),
            has_waited=now > number,
            is_repeated=any(
                type(later) is type(request) and later.member_id == request.member_id
                for later in asked_since
            ),
        )  # fmt: skip

    async def _await_kafka(
        self, now: int, told: Mapping[int, Told], ours: Twin, theirs: Twin
    ) -> None:
        """Wait for Kafka's answers to what ours has answered, unless it is known to give none."""
        missing = [
            theirs.waiting[number]
            for number in told
            if number in theirs.waiting
            and explanation(self._mismatch(now, number, ours, told, {})) is None
        ]
        if missing:
            await asyncio.wait(missing, timeout=PATIENCE_S)

    async def _unlike(self, request: Any, ours: Twin, theirs: Twin) -> Mismatch | None:
        """None once both describe the same group; else how they differ, if they do for long."""
        deadline = time.monotonic() + PATIENCE_S / 5
        while True:
            mine, other = await ours.describe(), await theirs.describe()
            if mine == other:
                return None
            unlike = Mismatch(request, mine, other, self._kafka, where="group")
            known = explanation(unlike)
            if (known and not known.goes_apart) or time.monotonic() > deadline:
                return unlike
            await asyncio.sleep(0.01)

    async def _ours_settled(self, ours: Twin) -> None:
        """Wait until ours has said what it says now."""
        while self._due_ms() < 100:
            await asyncio.sleep(0.002)
        await ours.describe()
        await asyncio.sleep(0.001)

    def _due_ms(self) -> float:
        """How long until ours does something by itself."""
        deadline = self._groups._core.next_deadline
        return float("inf") if deadline is None else deadline - time.time() * 1000

    async def _wait(self) -> None:
        """Wait until no short time-out is left, at either."""
        while self._due_ms() < 3 * SHORT_MS:
            await asyncio.sleep(max(self._due_ms(), 0) / 1000 + 0.02)
        await asyncio.sleep(LAG_MS / 1000)


def brief(twin: Twin, request: Any) -> str:
    """A request, in a line."""
    return f"{type(request).__name__} {request.API_VERSION} {twin.plain(request.to_dict())}"


async def shrunk(twins: Twins, found: Compared) -> Compared:
    """The shortest history like this one that leaving deeds out, one by one, still makes differ."""
    place = len(found.history.deeds) - 1
    while place >= 0:
        deeds = found.history.deeds
        fewer = replace(found.history, deeds=deeds[:place] + deeds[place + 1 :])
        tried = await twins.compare(fewer)
        if tried.mismatches:
            found = tried
        place = min(place, len(found.history.deeds)) - 1
    return found


@asynccontextmanager
async def twins(kafka: EmbeddedKafka, settings: GroupSettings = SETTINGS) -> AsyncIterator[Twins]:
    """Ours, and this Kafka's coordinator, with the same topics and settings."""
    async with served({TOPIC: PARTITIONS, "u": 1}, groups=settings) as there, AsyncExitStack() as s:

        async def to_kafka() -> WireClient:
            """A connection that Kafka reads: what it has yet to accept may be overtaken."""
            streams = await asyncio.open_connection("127.0.0.1", kafka.port)
            client = WireClient(*streams)
            s.push_async_callback(client.hang_up)
            await client.ask(ApiVersionsRequest(version=0), 0)
            return client

        async def to_ours() -> WireClient:
            """A connection to our broker."""
            return await client_of(there)

        await _coordinates(await to_kafka())
        spoken = []
        for connect in (to_ours, to_kafka):
            told = await (await connect()).ask(ApiVersionsRequest(version=0), 0)
            spoken.append({each.api_key: each.max_version for each in told.api_keys})
        newest = {api: min(version, spoken[1].get(api, -1)) for api, version in spoken[0].items()}
        yield Twins(there.groups, newest, {"ours": to_ours, "kafka": to_kafka}, kafka.version)


async def _coordinates(kafka: WireClient) -> None:
    """Wait until Kafka has made the topic of its groups, and coordinates them."""
    asked = FindCoordinatorRequest(version=1, key="any", key_type=0)
    while (await kafka.ask(asked, 1)).error_code:
        await asyncio.sleep(0.05)
    for number in range(50):  # groups of every partition of that topic
        describe = DescribeGroupsRequest(version=0, groups=[f"any-{number}"])
        while (await kafka.ask(describe, 0)).groups[0].error_code:
            await asyncio.sleep(0.05)
