"""
The group coordinator's core as an adapter of the spec; its clients are the spec's own.

What clients, the election and topics do, a copy of the spec does; what a coordinator reads, or
hears from the store, is given to a core. What is observed is the core's, the store's, and what
clients were answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from herdproof.conformance.adapter import Refused, varied
from herdproof.conformance.beside import BesideTheSpec, beside
from herdproof.consuming.consumer_protocol import (
    read_assignment,
    write_assignment,
    write_subscription,
)
from herdproof.protocols.group_protocol.client.core.offset_requests import to_commit
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.groups import CONSUMER, ClassicGroup
from herdproof.protocols.group_protocol.effects import (
    TopicPartition,
)
from herdproof.protocols.group_protocol.messages import (
    Error,
    GroupProtocol,
    GroupResponse,
    GroupToFetch,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from herdproof.protocols.group_protocol.simulated.gated_coordinators import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    GatedCoordinators,
    commit_of,
)
from herdspec.language.specification import Specification
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol import spec as c
from herdspec.protocols.group_protocol.properties import HELD

ANSWERED = ("down", "said", "given", "rejoin", "has_id", "position", "exists")
"""Fields that an answer changes at a client; and which partitions there are, as it begins."""
COMPLETES = ("handle_join_group", "handle_leave_group", "expire", "expire_gone")


def place(p: c.Partition) -> TopicPartition:
    """A partition: that of a topic of its own, since whoever subscribes wants whole topics."""
    return f"t{p.index}", 0


def partition(topic: str) -> c.Partition:
    """The partition of a topic."""
    return Partition(int(topic[1:]))


def bearer(member_id: str) -> c.Member:
    """Whom a member id was given to: it begins with the client's, `c0` say."""
    return Member(int(member_id[1:].partition("-")[0]))


@beside(HELD)
class HeldCoordinators(GatedCoordinators[c.Member], BesideTheSpec):
    """The gated coordinators, and the spec's own clients."""

    pumped = True
    same: ClassVar = {
        "doubt": "step_down", "expire_gone": "expire",
        **dict.fromkeys(("store_empty_generation", "store_offsets"), "done"),
        **dict.fromkeys(("answer_joins", "answer_syncs", "answer_commits"), "heard"),
    }  # fmt: skip
    silent: ClassVar[tuple[str, ...]] = ("complete_join", "flush_offsets")
    undue = ("complete_join",)
    follows: ClassVar[Mapping[str, Sequence[str]]] = {
        **dict.fromkeys(COMPLETES, ("complete_join",)),
        "handle_offset_commit": ("flush_offsets",),
    }
    chosen: ClassVar[Mapping[str, Sequence[str]]] = {
        "store_assignment": ("plan",), "store_generation": ("leader",),
    }  # fmt: skip
    reluctant: ClassVar[tuple[str, ...]] = (
        "handle_join_group", "update_fetch_positions", "expire", "expire_gone",
    )  # fmt: skip
    switches: ClassVar[frozenset[str]] = frozenset()
    """The mistakes of its cores."""

    def begin(self, Broker: int, Member: int, Partition: int) -> None:  # noqa: N803
        """Begin with a number of each; nobody is elected."""
        self._open(Broker=Broker, Member=Member, Partition=Partition)
        self._open_world(Broker)

    def _bearer(self, member_id: str) -> c.Member:
        return bearer(member_id)

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def _seen(self) -> dict[str, Any]:
        """The fields: what is stored, what is in memory, what clients were answered."""
        seen = {**self._in_store(), **self._in_memory(), **self._told()}
        return seen | self._taken_offsets()

    def _in_store(self) -> dict[str, Any]:
        stored = self._stored.metadata
        offsets = self._stored.offsets
        seen: dict[str, Any] = {
            "committed": {p: commit_of(offsets.get(place(p))) for p in Partition}
        }
        if stored is not None:
            members = {self._member(member.member_id) for member in stored.members}
            seen["generation"] = stored.generation
            seen["belongs"] = {m: m in members for m in Member}
            seen["leader"] = self._member(stored.leader)
            if stored.is_assigned:
                seen["assigned"] = stored.generation
                owners = {
                    partition(topic): self._member(member.member_id)
                    for member in stored.members
                    for topic, _ in read_assignment(member.assignment)
                }
                seen["owner"] = owners
        return seen

    def _in_memory(self) -> dict[str, Any]:
        group = self._group
        pending, members = (group.pending, group.members) if group is not None else ({}, {})
        joining, syncing = (group.joining, group.syncing) if group is not None else ({}, {})
        ids = {m: self._ids.get(m, "") for m in Member}
        return {
            "coordinator": None if self._leader is None else Broker(self._leader),
            "state": self._state(group),
            "entry": {
                m: c.Entry.MEMBER if name in members
                else c.Entry.PENDING if name in pending else c.Entry.NONE
                for m, name in ids.items()
            },
            "joined": {m: name in joining for m, name in ids.items()},
            "synced": {m: name in syncing for m, name in ids.items()},
            "write": self._kind(),
            "done": self._is_done,
        }  # fmt: skip

    def _taken_offsets(self) -> dict[str, Any]:
        """The offsets that were sent to be stored, and those that are on their way."""
        sent = {} if self._write is None or self._is_done else self._write.offsets
        return {
            "noted": {p: self._noted.get(place(p), 0) for p in Partition},
            "sent": {p: commit_of(sent.get(place(p))) for p in Partition},
        }

    def _told(self) -> dict[str, Any]:
        return {name: dict(getattr(self._s, name)) for name in ANSWERED}

    def _kind(self) -> c.GroupWrite:
        if self._write is None:
            return c.GroupWrite.NONE
        metadata = self._write.metadata
        if metadata is None:
            return c.GroupWrite.OFFSETS
        return c.GroupWrite.ASSIGNMENT if metadata.is_assigned else c.GroupWrite.GENERATION

    def _state(self, group: ClassicGroup | None) -> c.GroupState:
        """The core is where it will be when it hears that it is stored, the spec where it was."""
        if self._leader is None:
            return c.GroupState.DEAD
        match self._kind():
            case c.GroupWrite.GENERATION:
                return c.GroupState.PREPARING_REBALANCE
            case c.GroupWrite.ASSIGNMENT:
                return c.GroupState.COMPLETING_REBALANCE
        return c.GroupState.EMPTY if group is None else c.GroupState[group.state.name]

    def _member(self, member_id: str | None) -> c.Member | None:
        return None if member_id is None else bearer(member_id)

    # ── Steps ───────────────────────────────────────────────────────────────────────────────

    def _begin_step(self) -> None:
        for m in Member:
            if self._s.awaits[m] == c.Awaited.NOTHING or self._s.up[m]:
                self._current.pop(m, None)
        self._answers = {}

    def _is_nothing(self, action: str) -> bool:
        """An offset that is stored already is not stored anew."""
        if action == "flush_offsets":
            self._done()
            self._heard()
        return action == "flush_offsets"

    def _end_step(self, before: c.GroupProtocol) -> None:
        """Clients were answered by the core, and by nobody else."""
        s = self._s
        for m in Member:
            s.down[m], s.said[m] = before.down[m], before.said[m]
            for p in Partition:
                s.given[m, p] = before.given[m, p]
        for m, told in self._answers.items():
            self._hears(s, m, told)

    def _hears(self, s: c.GroupProtocol, m: c.Member, told: GroupResponse) -> None:
        match told:
            case JoinGroupResponse(error=Error.NONE):
                leads = told.leader == told.member_id
                s.down[m] = c.GroupAnswer.LEADER if leads else c.GroupAnswer.FOLLOWER
                s.said[m] = told.generation_id
            case SyncGroupResponse(error=Error.NONE):
                mine = read_assignment(told.assignment)
                s.down[m] = c.GroupAnswer.ASSIGNMENT
                for p in Partition:
                    s.given[m, p] = place(p) in mine
            case JoinGroupResponse(error=error) | SyncGroupResponse(error=error):
                s.down[m] = c.GroupAnswer[error.name]
            case HeartbeatResponse(error=error):
                s.rejoin[m] = error is not Error.NONE
                s.has_id[m] = error is not Error.UNKNOWN_MEMBER_ID
            case OffsetFetchResponse(groups=(group,)):
                for topic in group.topics:
                    if s.given[m, p := partition(topic.name)]:
                        s.position[m, p] = max(topic.partitions[0].offset, 0)

    # ── Who coordinates ─────────────────────────────────────────────────────────────────────

    def _load_group(self, b: Broker) -> None:
        self._load(b.index, self._s.election.epoch)

    def _step_down(self, b: Broker) -> None:
        self._resign(b.index)

    def _restart(self, b: Broker) -> None:
        self._begin_anew(b.index)

    # ── What it reads ───────────────────────────────────────────────────────────────────────

    def _handle_join_group(self, m: c.Member) -> None:
        """Who has lost its id, and is still stored, would be another one; in the spec it is not."""
        is_stored = self._s.leader == m or self._s.belongs[m]
        if is_stored and not self._s.has_id[m]:
            raise Refused
        request = JoinGroupRequest(
            version=9, client_id=f"c{m.index}", group_id=GROUP,
            member_id=self._ids[m] if self._s.has_id[m] else "",
            session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS,
            protocol_type=CONSUMER, protocols=self._protocols(m),
        )  # fmt: skip
        self._ask(m, request)

    def _protocols(self, m: c.Member) -> tuple[GroupProtocol, ...]:
        """The protocols that a JoinGroup lists."""
        return self._subscribed_by(m, "plan")

    def _subscribed_by(self, m: c.Member, *names: str) -> tuple[GroupProtocol, ...]:
        """Protocols of these names; all say the same of a member."""
        topics = tuple(place(p)[0] for p in Partition if self._asks_for(m, p))
        return tuple(GroupProtocol(name, write_subscription(topics)) for name in names)

    def _asks_for(self, m: c.Member, p: c.Partition) -> bool:
        return bool(self._s.interest[m, p])

    def _handle_sync_group(self, m: c.Member) -> None:
        shares: dict[c.Member, list[TopicPartition]] = {}
        for p in Partition if self._s.leads[m] else ():
            wanting = [o for o in Member if self._s.belongs[o] and self._s.interest[o, p]]
            if self._s.exists[p] and wanting:
                heir = wanting[(self._s.at[m] + 1) % len(wanting)]  # so that partitions move
                shares.setdefault(heir, []).append(place(p))
        request = SyncGroupRequest(
            version=5, group_id=GROUP, generation_id=self._s.at[m], member_id=self._ids[m],
            assignments=tuple(
                MemberAssignment(self._ids[other], write_assignment(share))
                for other, share in shares.items()
            ),
        )  # fmt: skip
        self._ask(m, request)

    def _heartbeat(self, m: c.Member) -> None:
        request = HeartbeatRequest(
            version=4, group_id=GROUP, generation_id=self._s.at[m], member_id=self._ids[m]
        )
        self._ask_now(m, request)

    def _handle_leave_group(self, m: c.Member) -> None:
        leaving = (LeavingMember(self._ids[m]),)
        request = LeaveGroupRequest(version=5, group_id=GROUP, members=leaving)
        self._ask(m, request, awaits=False)

    def _handle_offset_commit(self, m: c.Member) -> None:
        committing = self._s.committing
        offsets = {place(p): committing[m, p] for p in Partition if committing[m, p]}
        request = OffsetCommitRequest(
            version=9, group_id=GROUP, generation_id=self._s.commit_at[m],
            member_id=self._ids[m], topics=to_commit(offsets),
        )  # fmt: skip
        self._ask(m, request, awaits=False)

    def _update_fetch_positions(self, m: c.Member) -> None:
        """While anything of a group is being stored, it is not answered yet."""
        request = OffsetFetchRequest(version=9, groups=(GroupToFetch(GROUP, None),))
        self._ask_now(m, request)

    def _expire(self, m: c.Member) -> None:
        """Not before what is due is done."""
        if self._is_due():
            raise Refused("a rebalance that nobody is left to join is over first")
        self._pass(SESSION_MS, self._ids[m])

    # ── The store ───────────────────────────────────────────────────────────────────────────

    def _store_generation(self) -> c.Member | None:
        self._done()
        assert self._stored.metadata is not None
        return self._member(self._stored.metadata.leader)

    def _store_assignment(self) -> dict[c.Partition, c.Member | None]:
        self._done()
        owners = self._in_store().get("owner", {})
        return {p: owners.get(p) for p in Partition}


def with_mistake(
    adapter: type[HeldCoordinators], held: Specification,
    cores: Mapping[str, type[GroupCoordinator]], switches: frozenset[str], spec: Specification,
) -> type[HeldCoordinators]:  # fmt: skip
    """The adapter of a form, of which `held` is the verified spec: with the core of a mistake."""
    if not switches:
        return adapter
    (flaw,) = switches
    return varied(adapter, held, spec, others=spec, switches=switches, core=cores[flaw])
