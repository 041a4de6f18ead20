"""
Histories of a group on Kafka's wire: what each of a few members asks, right or wrong, in turn.

A history is data: a list of deeds, drawn by a seed. What a deed asks exactly follows when it is
done from what its member was answered before, at each coordinator of its own: the member ids and
generations that one hands out are not the other's. A deed NEXT is what a client would do; the
others ask out of turn, as somebody else, in another generation, or something that cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

from herdproof.consuming.consumer_protocol import write_assignment, write_subscription

SEATS = 5
STATIC_FROM = 3
"""Members from this one on have an instance id."""
TOPIC = "t"
PARTITIONS = 4
LONG_MS, SHORT_MS, TOO_SHORT_MS = 120_000, 3_000, 10
STRANGER = "nobody-knows-this-one"
REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, MEMBER_ID_REQUIRED = 27, 22, 79


class What(Enum):
    """What is asked."""

    NEXT = auto()
    JOIN = auto()
    SYNC = auto()
    HEARTBEAT = auto()
    LEAVE = auto()
    COMMIT = auto()
    FETCH = auto()
    DESCRIBE = auto()
    LIST = auto()
    DELETE_GROUPS = auto()
    DELETE_OFFSETS = auto()
    WAIT = auto()
    """Nothing is, until every short time-out is over."""


class Who(Enum):
    """Who a member says to be."""

    ITSELF = auto()
    NOBODY = auto()
    STRANGER = auto()
    FORMER = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Deed:
    """What one member asks; `choice` picks among what a request of this kind may say."""

    what: What
    seat: int = 0
    version: int = 9
    """This one, or the newest that both coordinators speak."""
    who: Who = Who.ITSELF
    generation: int = 0
    """Of the one that it was told, so many later."""
    choice: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """What the members of a group do, one after the other."""

    seed: int
    deeds: tuple[Deed, ...]
    short: frozenset[int] = frozenset()
    """Whose time-outs are short."""


class Phase(Enum):
    """Where a member is, by what it was answered."""

    OUT = auto()
    JOINED = auto()
    SYNCED = auto()


@dataclass
class Seat:
    """A member, by what one coordinator told it."""

    number: int
    is_short: bool
    phase: Phase = Phase.OUT
    member_id: str = ""
    former: list[str] = field(default_factory=list)
    generation: int = -1
    protocol: str = ""
    told: tuple[str, ...] = ()
    """The members that it is to assign, if it leads."""

    @property
    def instance(self) -> str | None:
        """Its instance id, if it is a static member."""
        return f"i{self.number}" if self.number >= STATIC_FROM else None

    def heard(self, api: int, answer: Any) -> None:
        """An answer came: go on from there."""
        if api == ApiKey.JoinGroup:
            self._joined(answer)
        elif api == ApiKey.SyncGroup:
            self.phase = Phase.OUT if answer.error_code else Phase.SYNCED
        elif api == ApiKey.LeaveGroup and not answer.error_code:
            self._is_out(forgets=True)
        elif api == ApiKey.Heartbeat and answer.error_code:
            lasting = (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION)
            self._is_out(forgets=answer.error_code not in lasting)

    def _joined(self, answer: Any) -> None:
        if answer.error_code not in (0, MEMBER_ID_REQUIRED):
            self._is_out(forgets=answer.error_code != REBALANCE_IN_PROGRESS)
            return
        if self.member_id not in ("", answer.member_id):
            self.former.append(self.member_id)
        self.member_id = answer.member_id
        if not answer.error_code:
            self.phase = Phase.JOINED
            self.generation = answer.generation_id
            self.protocol = answer.protocol_name or ""
            self.told = tuple(each.member_id for each in answer.members)

    def _is_out(self, *, forgets: bool) -> None:
        self.phase = Phase.OUT
        if forgets and self.member_id:
            self.former.append(self.member_id)
            self.member_id = ""


# ── Drawing ─────────────────────────────────────────────────────────────────────────────────

OFTEN: Mapping[What, int] = {
    What.NEXT: 50, What.JOIN: 8, What.SYNC: 6, What.HEARTBEAT: 5, What.LEAVE: 5, What.COMMIT: 8,
    What.FETCH: 4, What.DESCRIBE: 2, What.LIST: 2, What.DELETE_GROUPS: 2, What.DELETE_OFFSETS: 3,
}  # fmt: skip


def drawn(seed: int, deeds: int, *, timed: bool) -> History:
    """The history of this seed; where it is timed, some members fall silent for too long."""
    chance = Random(seed)
    seats = chance.randint(1, SEATS)
    short = frozenset(n for n in range(SEATS) if timed and chance.random() < 0.6)
    kinds, weights = list(OFTEN), list(OFTEN.values())
    made = [
        Deed(
            what=chance.choices(kinds, weights)[0],
            seat=chance.choice(range(SEATS)[-seats:]),
            version=chance.randrange(10),
            who=chance.choices(list(Who), (12, 2, 1, 1, 1))[0],
            generation=chance.choices((0, -1, 1), (8, 1, 1))[0],
            choice=chance.randrange(60),
        )
        for _ in range(deeds)
    ]
    if timed:
        for place in sorted(chance.sample(range(3, deeds), 2), reverse=True):
            made.insert(place, Deed(What.WAIT))
    return History(seed, tuple(made), short)


# ── Asking ──────────────────────────────────────────────────────────────────────────────────

RANGE, ROUND_ROBIN = "range", "roundrobin"
SUBSCRIBED = write_subscription([TOPIC])
PROTOCOLS: tuple[tuple[tuple[str, bytes], ...], ...] = (
    *[((RANGE, SUBSCRIBED),)] * 6,
    *[((RANGE, SUBSCRIBED), (ROUND_ROBIN, SUBSCRIBED))] * 4,
    *[((ROUND_ROBIN, SUBSCRIBED), (RANGE, SUBSCRIBED))] * 2,
    ((RANGE, write_subscription(["u"])),),
    ((RANGE, b"\0"),),
    (("sticky", SUBSCRIBED),),
    (),
)
TYPES = (*["consumer"] * 14, "connect", "")
PARTITIONS_NAMED: tuple[dict[str, list[int]], ...] = (
    {TOPIC: [0]}, {TOPIC: [0, 1]}, {TOPIC: [2], "u": [0]}, {"absent": [0], TOPIC: [3]},
    {TOPIC: [PARTITIONS + 5]}, {},
)  # fmt: skip
TOO_LONG = "m" * 5_000


@dataclass(frozen=True, slots=True)
class Asking:
    """A deed at one coordinator: who does it, in which group, and whom it may name."""

    deed: Deed
    seat: Seat
    seats: tuple[Seat, ...]
    group: str
    newest: Mapping[int, int]
    names: Mapping[str, str]
    """Member ids, by names that are the same at every coordinator."""

    def request(self) -> Any | None:
        """What is asked; None: a client would do nothing now."""
        what = self.deed.what
        if what is What.NEXT:
            return self._next()
        return {
            What.JOIN: self._join, What.SYNC: self._sync, What.HEARTBEAT: self._heartbeat,
            What.LEAVE: self._leave, What.COMMIT: self._commit, What.FETCH: self._fetch,
            What.DESCRIBE: self._describe, What.LIST: self._list,
            What.DELETE_GROUPS: self._delete_groups, What.DELETE_OFFSETS: self._delete_offsets,
        }[what]()  # fmt: skip

    def _next(self) -> Any:
        plain = Asking(
            Deed(What.NEXT, self.deed.seat, self.deed.version, choice=self.deed.choice % 2),
            self.seat, self.seats, self.group, self.newest, self.names,
        )  # fmt: skip
        match self.seat.phase:
            case Phase.OUT:
                return plain._join()
            case Phase.JOINED:
                return plain._sync()
            case Phase.SYNCED:
                return plain._heartbeat()

    def _version(self, kind: Any) -> int:
        return min(self.deed.version, self.newest[kind.API_KEY])

    @property
    def _member_id(self) -> str:
        match self.deed.who:
            case Who.ITSELF:
                return self.seat.member_id
            case Who.NOBODY:
                return ""
            case Who.STRANGER:
                return STRANGER
            case Who.FORMER:
                return self.seat.former[-1] if self.seat.former else STRANGER
            case Who.OTHER:
                return self.seats[(self.seat.number + 1) % SEATS].member_id

    def _named(self, version: int, since: int) -> dict[str, Any]:
        """Who asks, with its instance id from this version on."""
        instance = {"group_instance_id": self.seat.instance} if version >= since else {}
        return {"group_id": self.group, "member_id": self._member_id, **instance}

    @property
    def _generation(self) -> int:
        return self.seat.generation + self.deed.generation

    def _join(self) -> Any:
        version, choice = self._version(JoinGroupRequest), self.deed.choice
        timeout_ms = SHORT_MS if self.seat.is_short else LONG_MS
        made = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            version=version,
            session_timeout_ms=TOO_SHORT_MS if choice == 59 else timeout_ms,
            rebalance_timeout_ms=timeout_ms,
            protocol_type=TYPES[choice % len(TYPES)],
            protocols=[made(name=n, metadata=m) for n, m in PROTOCOLS[choice % len(PROTOCOLS)]],
            **self._named(version, 5),
        )

    def _sync(self) -> Any:
        version, choice = self._version(SyncGroupRequest), self.deed.choice
        names: dict[str, Any] = {}
        if version >= 5:
            wrong = choice % 10 == 9
            names = {
                "protocol_type": "consumer",
                "protocol_name": "wrong" if wrong else self.seat.protocol,
            }
        made = SyncGroupRequest.SyncGroupRequestAssignment
        told = sorted(self.seat.told, key=self.names.__getitem__)[choice % 7 == 6 :]
        return SyncGroupRequest(
            version=version,
            generation_id=self._generation,
            assignments=[
                made(member_id=member, assignment=self._assigned(place))
                for place, member in enumerate(told)
            ],
            **names,
            **self._named(version, 3),
        )

    def _assigned(self, place: int) -> bytes:
        return write_assignment([(TOPIC, place % PARTITIONS)])

    def _heartbeat(self) -> Any:
        version = self._version(HeartbeatRequest)
        return HeartbeatRequest(
            version=version, generation_id=self._generation, **self._named(version, 3)
        )

    def _leave(self) -> Any:
        version = self._version(LeaveGroupRequest)
        if version < 3:
            return LeaveGroupRequest(
                version=version, group_id=self.group, member_id=self._member_id
            )
        made = LeaveGroupRequest.MemberIdentity
        by_instance = self.deed.choice % 3 == 2
        leaving = [
            made(
                member_id="" if by_instance else self._member_id,
                group_instance_id=self.seat.instance,
            )
        ]
        if self.deed.choice % 5 == 4:
            other = self.seats[(self.seat.number + 2) % SEATS]
            leaving.append(made(member_id=other.member_id, group_instance_id=other.instance))
        return LeaveGroupRequest(version=version, group_id=self.group, members=leaving)

    def _commit(self) -> Any:
        version, choice = max(2, self._version(OffsetCommitRequest)), self.deed.choice
        named = self._named(version, 7)
        generation = self._generation
        if choice % 4 == 3:
            generation, named = -1, {"group_id": self.group, "member_id": ""}
        of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
        of_partition = of_topic.OffsetCommitRequestPartition
        metadata = (None, "", "m")[choice % 3]
        topics = [
            of_topic(
                name=topic,
                partitions=[
                    of_partition(
                        partition_index=number, committed_offset=choice,
                        committed_leader_epoch=choice % 3 - 1,
                        committed_metadata=TOO_LONG if number == 1 else metadata,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in PARTITIONS_NAMED[choice % len(PARTITIONS_NAMED)].items()
        ]  # fmt: skip
        return OffsetCommitRequest(
            version=version, generation_id_or_member_epoch=generation, topics=topics,
            **({"retention_time_ms": -1} if version < 5 else {}), **named,
        )  # fmt: skip

    def _fetch(self) -> Any:
        version, choice = max(1, self._version(OffsetFetchRequest)), self.deed.choice
        asked = PARTITIONS_NAMED[choice % len(PARTITIONS_NAMED)]
        has_all = version >= 2 and choice % 2 == 1
        if version < 8:
            made = OffsetFetchRequest.OffsetFetchRequestTopic
            topics = [made(name=t, partition_indexes=numbers) for t, numbers in asked.items()]
            return OffsetFetchRequest(
                version=version, group_id=self.group, topics=None if has_all else topics
            )
        of_group = OffsetFetchRequest.OffsetFetchRequestGroup
        made = of_group.OffsetFetchRequestTopics
        topics = [made(name=topic, partition_indexes=numbers) for topic, numbers in asked.items()]
        groups = [
            of_group(group_id=name, topics=None if has_all else topics)
            for name in (self.group, f"{self.group}-absent")
        ]
        return OffsetFetchRequest(version=version, groups=groups)

    def _describe(self) -> Any:
        version = self._version(DescribeGroupsRequest)
        return DescribeGroupsRequest(
            version=version, groups=[self.group, f"{self.group}-absent", ""][: 1 + version % 3],
            include_authorized_operations=False,
        )  # fmt: skip

    def _list(self) -> Any:
        version, choice = self._version(ListGroupsRequest), self.deed.choice
        more: dict[str, Any] = {}
        if version >= 4:
            more["states_filter"] = ([], ["Stable"], ["empty", "PreparingRebalance"])[choice % 3]
        if version >= 5:
            more["types_filter"] = ([], ["classic"], ["consumer"])[choice // 3 % 3]
        return ListGroupsRequest(version=version, **more)

    def _delete_groups(self) -> Any:
        names = [self.group, f"{self.group}-absent", ""][: 1 + self.deed.choice % 3]
        return DeleteGroupsRequest(version=self._version(DeleteGroupsRequest), groups_names=names)

    def _delete_offsets(self) -> Any:
        of_topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
        made = of_topic.OffsetDeleteRequestPartition
        asked = PARTITIONS_NAMED[self.deed.choice % len(PARTITIONS_NAMED)]
        topics = [
            of_topic(name=topic, partitions=[made(partition_index=number) for number in numbers])
            for topic, numbers in asked.items()
        ]
        return OffsetDeleteRequest(version=0, group_id=self.group, topics=topics)
