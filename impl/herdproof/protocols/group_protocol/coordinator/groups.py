"""
A group and its members, as the coordinator keeps them: what they are, not what is done about it.

Whoever is parked is known here by the number of its request: a member in `joining` waits for the
next generation, one in `syncing` for its assignment. Members are kept in the order in which they
came, so that leader and protocol are the same in every run.

Source: apache/kafka, `ClassicGroup` and `ClassicGroupMember`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from herdproof.protocols.group_protocol.coordinator.states import GroupState, transition
from herdproof.protocols.group_protocol.effects import StoredCommit, TopicPartition
from herdproof.protocols.group_protocol.messages import Error, GroupProtocol, JoinedMember

CONSUMER = "consumer"
"""The protocol type of consumers, whose subscriptions and assignments can be read."""


@dataclass(slots=True, eq=False)
class ClassicMember:
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]
    assignment: bytes = b""
    given_up: tuple[TopicPartition, ...] = ()
    """The partitions assigned to it before that, and to nobody since."""
    is_new: bool = False
    """It has not been in any generation."""
    deadline_ms: int = 0
    """When its session ends, unless it is heard of."""
    watched_ms: int | None = None
    """When the timer of its session fires next."""

    def metadata(self, protocol: str | None) -> bytes:
        """The words of the member on itself in a protocol."""
        return next((p.metadata for p in self.protocols if p.name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The protocol that it likes best of those."""
        return next(p.name for p in self.protocols if p.name in candidates)


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """A group of members that share something, as a rule the partitions of topics."""

    name: str
    since_ms: int
    """When it came to its state."""
    state: GroupState = GroupState.EMPTY
    before: GroupState = GroupState.DEAD
    """The state before that."""
    protocol_type: str | None = None
    """None: it never had members, only offsets."""
    protocol: str | None = None
    generation: int = 0
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    """By instance id, the member id of each static member."""
    pending: dict[str, None] = field(default_factory=dict)
    """Member ids that were given out by MEMBER_ID_REQUIRED, and have not joined yet."""
    joining: dict[str, int] = field(default_factory=dict)
    syncing: dict[str, int] = field(default_factory=dict)
    rebalances_since_ms: int | None = None
    """When all were to join anew who have no assignment yet; None: they have."""
    unsynced: dict[str, None] = field(default_factory=dict)
    """Members of this generation that have not asked for their assignment yet."""
    is_growing: bool = False
    """Somebody has joined since the initial delay was begun, or extended."""
    topics: frozenset[str] | None = None
    """The topics that its members subscribe to; None: nobody can tell."""
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    """Who was assigned a partition last, as far as assignments can be read."""
    offsets: dict[TopicPartition, StoredCommit] = field(default_factory=dict)
    supported: Counter[str] = field(default_factory=Counter)
    """The number of members that support each protocol."""

    # ── What it is ──────────────────────────────────────────────────────────────────────────

    def is_in(self, *states: GroupState) -> bool:
        """Tells whether it is in one of these states."""
        return self.state in states

    def is_of_consumers(self) -> bool:
        """Tells whether its subscriptions and assignments are those of consumers."""
        return self.protocol_type == CONSUMER

    def have_all_joined(self) -> bool:
        """Tells whether nobody is waited for before the next generation."""
        return len(self.joining) == len(self.members) and not self.pending

    def rebalance_timeout_ms(self) -> int:
        """The longest time that any member asks for to join anew."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def is_subscribed_to(self, topic: str) -> bool:
        """Tells whether it may be consuming a topic: it is, or nobody can tell."""
        return topic in self.topics if self.topics is not None else self.is_of_consumers()

    def supports(self, protocol_type: str, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Tells whether somebody of these protocols fits in: one of them is common to all."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.supported[protocol.name] == everybody for protocol in protocols
        )

    def why_not(self, member_id: str, instance: str | None) -> Error:
        """Why a request is not taken from who says to be this member; NONE if it is."""
        if instance is not None:
            present = self.instances.get(instance)
            if present is None:
                return Error.UNKNOWN_MEMBER_ID
            if present != member_id:
                return Error.FENCED_INSTANCE_ID
        return Error.NONE if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def told_to_leader(self) -> tuple[JoinedMember, ...]:
        """All members, for their leader."""
        return tuple(
            JoinedMember(m.member_id, m.group_instance_id, m.metadata(self.protocol))
            for m in self.members.values()
        )

    def selected_protocol(self) -> str:
        """
        The protocol that most members like best of those that all support.

        Of those with as many votes it is the one that was voted for first.
        """
        everybody = len(self.members)
        candidates = frozenset(name for name, n in self.supported.items() if n == everybody)
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # ── What becomes of it ──────────────────────────────────────────────────────────────────

    def go_to(self, state: GroupState, now_ms: int) -> None:
        """Be in another state from now on."""
        self.before, self.state = self.state, transition(self.state, state)
        self.since_ms = now_ms

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Somebody is a member from now on; the first is the leader."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.instances[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count(member, 1)
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Somebody is no member any more, nor about to be; the next in line is the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            if member.group_instance_id is not None:
                self.instances.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        for waiting in (self.pending, self.unsynced, self.joining, self.syncing):
            waiting.pop(member_id, None)

    def update(
        self, member: ClassicMember, protocols: tuple[GroupProtocol, ...],
        session_timeout_ms: int, rebalance_timeout_ms: int,
    ) -> None:  # fmt: skip
        """A member says otherwise of itself."""
        self._count(member, -1)
        member.protocols = protocols
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms
        self._count(member, 1)

    def replace(self, old_id: str, new_id: str) -> ClassicMember:
        """A static member goes on under another member id; it keeps its place and assignment."""
        member = self.members[old_id]
        assert member.group_instance_id is not None
        self.members = {
            new_id if member_id == old_id else member_id: each
            for member_id, each in self.members.items()
        }
        member.member_id = new_id
        self.instances[member.group_instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.unsynced:
            self.unsynced[new_id] = self.unsynced.pop(old_id)
        for where, owner in self.owners.items():
            if owner == old_id:
                self.owners[where] = new_id
        return member

    def elect(self) -> bool:
        """Make sure that the leader is one that has joined; whether there is one."""
        if self.leader in self.joining:
            return True
        joined = next((one for one in self.members if one in self.joining), None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def _count(self, member: ClassicMember, by: int) -> None:
        for name in dict.fromkeys(protocol.name for protocol in member.protocols):
            self.supported[name] += by
            if not self.supported[name]:
                del self.supported[name]
