"""
Our client's core beside the coordinator's, as an adapter of the spec: what it does is its own.

What a client sends is held until the coordinator reads it, and what it is answered until it hears
it. Whose connection is over learns of it when nothing is awaited any more, or with `notice_lost`;
who has lost one looks the coordinator up at once where the spec still knows it.

What cannot be seen, by name: of whom awaits something `knows`; of whom is not STABLE `rejoin`,
`leads` and `position`; `at` but while STABLE, or until SyncGroup is answered; `ready` of whom
nothing is assigned to; and all that a client has after a heartbeat told it that its generation is
over: it stops then, the spec's stops when it joins again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from herdproof.conformance.adapter import Refused
from herdproof.conformance.gates import StepGates
from herdproof.consuming.events import CommitAsked, Consumed, Shutdown, Tick
from herdproof.consuming.offsets import Offset, OffsetReset
from herdproof.consuming.subscription import named
from herdproof.protocols.group_protocol.client.assignors.assignor import (
    MemberSubscription,
    PlainAssignor,
    Plan,
)
from herdproof.protocols.group_protocol.client.core import states
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.events import (
    ClientEvent,
    ClientRequest,
    ClientResponse,
    Disconnected,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    Node,
    Poll,
    RequestAnswered,
    SendRequest,
    SubscribeTo,
)
from herdproof.protocols.group_protocol.client.core.settings import ClientSettings
from herdproof.protocols.group_protocol.client.core.subscriptions import PartitionState
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.held.adapter import GROUP, HeldCoordinators, place
from herdproof.protocols.group_protocol.messages import (
    Error,
    GroupRequest,
    GroupResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from herdspec.protocols.group_protocol import spec as c

NODE = Node(0, "coordinator", 9092)
NEVER_MS, SESSION_MS, POLL_MS, BEAT_MS, BACK_OFF_MS = 2**60, 2**50, 2**40, 2**30, 1
NOTHING = "nothing"
"""A topic that is never there: whoever is to subscribe to nothing subscribes to this."""
LATE: tuple[type[ClientRequest], ...] = (LeaveGroupRequest, OffsetCommitRequest)
"""What may be read although its connection is over."""
KINDS = {
    c.Awaited.JOIN: JoinGroupRequest, c.Awaited.SYNC: SyncGroupRequest,
}  # fmt: skip


class TakesTurns(PlainAssignor):
    """Gives each topic to another of those who want it every time."""

    name = "plan"

    def __init__(self) -> None:
        self.turn = 1

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> Plan:  # fmt: skip
        """The plan."""
        self.turn += 1
        plan: dict[str, list[TopicPartition]] = {}
        for topic in topics:
            wanting = [name for name, wants in members.items() if topic in wants.topics]
            if wanting:
                plan.setdefault(wanting[self.turn % len(wanting)], []).append((topic, 0))
        return plan


class HeldClient:
    """A client's core, what it has sent, and what it was answered."""

    is_cut = is_over = joins = False
    """
    Nobody is left at the other end of its connection; a heartbeat told that it is over; what it has
    sent last is JoinGroup.
    """
    now_ms = commits = 0

    def __init__(self, core: type[GroupConsumer], name: str, topics: Sequence[str]) -> None:
        settings = ClientSettings(
            group_id=GROUP, client_id=name, session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=BEAT_MS, max_poll_interval_ms=POLL_MS,
            request_timeout_ms=NEVER_MS, retry_backoff_ms=BACK_OFF_MS, auto_commit=False,
            metadata_max_age_ms=NEVER_MS, auto_offset_reset=OffsetReset.SMALLEST,
        )  # fmt: skip
        self.core = core(settings, [NODE], [TakesTurns()])
        self.gates = StepGates(self.core.coordinator, (), polled=["ensure_active_group"])
        self.sent: dict[type[ClientRequest], SendRequest] = {}
        """What nobody has read."""
        self.answer: GroupResponse | None = None
        """What it has not heard."""
        self.asked: dict[type[ClientRequest], int] = {}
        """By kind the number of what was read last."""
        self.give(SubscribeTo(named(dict.fromkeys([NOTHING, *topics], 1))))

    def give(self, event: ClientEvent) -> None:
        """Give the core an event; what it sends is held."""
        for effect in self.core.receive(event, self.now_ms):
            if isinstance(effect, SendRequest):
                self.sent[type(effect.request)] = effect
                self.joins |= isinstance(effect.request, JoinGroupRequest)

    def go_on(self) -> None:
        """A moment passes, and its user polls."""
        self.now_ms += BACK_OFF_MS
        self.give(Poll(POLL_MS))

    def pass_ms(self, ms: int) -> None:
        """So much time passes, in which its user does not poll."""
        self.now_ms += ms
        self.give(Tick())

    def join(self) -> None:
        """It goes on with the join that is under way, or with the next."""
        self.go_on()
        self.gates.look("ensure_active_group")
        self.go_on()

    def complete(self) -> None:
        """It takes its assignment; should it have to join again, that waits."""
        vars(self.core.coordinator)["on_join_prepare"] = not_yet
        self.join()
        del vars(self.core.coordinator)["on_join_prepare"]

    def read(self, kind: type[ClientRequest]) -> ClientRequest:
        """What it has sent of this kind is read."""
        send = self.sent.pop(kind, None)
        if send is None:
            raise Refused(f"it has sent no {kind.__name__}")
        self.asked[kind] = send.number
        return send.request

    def answered(self, kind: type[ClientRequest], response: ClientResponse) -> None:
        """It hears the answer to what was read of this kind."""
        self.joins &= kind is not JoinGroupRequest
        self.give(RequestAnswered(self.asked.pop(kind), response))

    def lose(self) -> None:
        """Its connections are over, and it knows; the nodes' own connection stands anew."""
        self.is_cut, self.answer = False, None
        for node in (self.core.coordinator.coordinator, NODE):
            if node is not None:
                self.give(Disconnected(node))
        self.go_on()

    def find(self) -> None:
        """It looks the coordinator up, and is told."""
        if self.core.coordinator.coordinator is None:
            self.go_on()
            self.read(FindCoordinatorRequest)
            self.answered(FindCoordinatorRequest, FindCoordinatorResponse(node=NODE))
        self.is_cut = False

    def drop(self) -> None:
        """What it has sent to the coordinator will not be read."""
        for kind in [kind for kind, send in self.sent.items() if send.node != NODE]:
            del self.sent[kind]

    @property
    def owned(self) -> Mapping[TopicPartition, PartitionState]:
        """What it is assigned."""
        return self.core.subscriptions.assignment

    @property
    def state(self) -> states.MemberState:
        """How far it is."""
        return self.core.coordinator.state


class HeldClients(HeldCoordinators):
    """A core for each broker, and one for each client."""

    reluctant = (
        *HeldCoordinators.reluctant, "update_metadata", "session_time_out", "poll_time_out",
        "consume", "commit", "lookup_coordinator",
    )  # fmt: skip
    client: ClassVar[type[GroupConsumer]] = GroupConsumer

    def begin(self, Broker: int, Member: int, Partition: int) -> None:  # noqa: N803 - sorts
        """Nobody has subscribed."""
        super().begin(Broker, Member, Partition)
        self._live: dict[c.Member, HeldClient] = {}

    def _take(self, action: str, arguments: tuple[Any, ...]) -> Any:
        """A step: the client's before it is the coordinator's, or the spec's."""
        act: Callable[..., None] | None = getattr(self, f"_client_{action}", None)
        if act is not None:
            act(*arguments)
        chose = super()._take(action, arguments)
        for m, client in self._live.items():
            if client.is_cut and self._s.awaits[m] is c.Awaited.NOTHING:
                client.lose()
        return chose

    def _unload(self) -> None:
        """Connections are over."""
        super()._unload()
        for client in self._live.values():
            client.is_cut = True
            client.drop()

    # ── What is sent, and answered ──────────────────────────────────────────────────────────

    def _ask(self, m: c.Member, request: GroupRequest, *, awaits: bool = True) -> None:
        client, kind = self._live[m], type(request)
        if kind is OffsetFetchRequest and client.core.coordinator.rejoin_needed:
            raise Refused("it joins first")
        if kind is OffsetFetchRequest and kind not in client.sent and not any(
            self._s.given[m, p] for p in c.Partition
        ):  # fmt: skip
            super()._ask(m, request, awaits=awaits)  # it has nothing to ask for
            return
        if kind is SyncGroupRequest and kind not in client.sent:
            self._tell_topics(client)
        read = client.read(kind)
        assert isinstance(read, kind)
        super()._ask(m, read, awaits=awaits)

    def _answer(self, m: c.Member, told: GroupResponse) -> None:
        super()._answer(m, told)
        client = self._live[m]
        match told:
            case HeartbeatResponse():
                client.answered(HeartbeatRequest, told)
                client.is_over = client.state is states.MemberState.UNJOINED
            case _ if OffsetFetchRequest in client.asked:
                client.answered(OffsetFetchRequest, told)
            case _:
                client.answer = told

    def _tell_topics(self, client: HeldClient) -> None:
        """It learns which topics there are now."""
        client.read(MetadataRequest)
        there = tuple((place(p)[0], 1) for p in c.Partition if self._s.exists[p])
        client.answered(MetadataRequest, MetadataResponse((NODE,), there))

    # ── Its steps ───────────────────────────────────────────────────────────────────────────

    def _client_subscribe(self, m: c.Member, wanted: set[c.Partition]) -> None:
        topics = sorted(place(p)[0] for p in wanted)
        self._live[m] = HeldClient(self.client, f"c{m.index}", topics)

    def _client_close(self, m: c.Member) -> None:
        self._live[m].give(Shutdown())

    def _client_update_metadata(self, m: c.Member) -> None:
        client = self._live[m]
        client.go_on()
        is_stable = client.state is states.MemberState.STABLE
        if client.is_over or (not is_stable and self._s.up[m]):
            raise Refused("it looks at topics for its assignment, or does not")
        client.core.metadata.request_update()
        client.go_on()
        self._tell_topics(client)
        member = client.core.coordinator
        known = member.assignment_snapshot or {}
        if not member.partitions_changed(known, client.core.metadata.topics):
            raise Refused("its group does not want it")

    def _client_lookup_coordinator(self, m: c.Member) -> None:
        self._live[m].find()

    def _client_initiate_join_group(self, m: c.Member) -> None:
        client = self._live[m]
        client.is_over = False
        for _ in range(2):
            if JoinGroupRequest not in client.sent:
                client.join()
        if JoinGroupRequest not in client.sent:
            raise Refused("it does not")

    def _client_hear(self, m: c.Member) -> None:
        client = self._live[m]
        told, client.answer = client.answer, None
        assert told is not None, "it was answered"
        client.answered(KINDS[self._s.awaits[m]], told)

    _client_learn_member_id = _client_on_join_leader = _client_on_join_follower = _client_hear
    _client_reset_generation = _client_join_again = _client_hear

    def _client_on_join_complete(self, m: c.Member) -> None:
        self._client_hear(m)
        self._live[m].complete()

    def _client_lose(self, m: c.Member) -> None:
        client = self._live[m]
        late = {kind: send for kind, send in client.sent.items() if kind in LATE}
        client.drop()
        client.lose()
        client.sent.update(late)
        if self._s.knows[m]:
            client.find()

    _client_notice_lost = _client_lose

    def _client_heartbeat(self, m: c.Member) -> None:
        """One that it has sent in a former generation is answered before, and says nothing."""
        client = self._live[m]
        present = client.core.coordinator.generation.generation_id
        match client.sent.get(HeartbeatRequest):
            case SendRequest(request=HeartbeatRequest(generation_id=former)) if former != present:
                client.read(HeartbeatRequest)
                over = HeartbeatResponse(error=Error.ILLEGAL_GENERATION)
                client.answered(HeartbeatRequest, over)
        client.go_on()
        client.pass_ms(BEAT_MS)

    def _client_session_time_out(self, m: c.Member) -> None:
        client = self._stable(m)
        client.pass_ms(SESSION_MS)
        client.asked.clear()
        client.sent.pop(OffsetFetchRequest, None)

    def _client_poll_time_out(self, m: c.Member) -> None:
        client = self._stable(m)
        client.pass_ms(POLL_MS)

    def _client_consume(self, m: c.Member, p: c.Partition) -> None:
        offset = Offset(place(p)[0], "0", self._s.position[m, p] + 1)
        self._stable(m).give(Consumed(offset, None))

    def _client_commit(self, m: c.Member) -> None:
        client = self._stable(m)
        client.commits += 1
        client.give(CommitAsked(client.commits))
        if OffsetCommitRequest not in client.sent:
            raise Refused("it has nothing to commit")

    def _stable(self, m: c.Member) -> HeldClient:
        """One that is STABLE, and knows who coordinates."""
        client = self._live[m]
        client.go_on()
        is_stable = client.state is states.MemberState.STABLE
        if not is_stable or client.core.coordinator.coordinator is None:
            raise Refused("it is not STABLE, or knows nobody")
        return client

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def _told(self) -> dict[str, Any]:
        """Of who lives: what its core knows."""
        seen = super()._told()
        for name in ("client", "knows", "at", "leads", "awaits", "up", "ready"):
            seen[name] = {}
        for m in c.Member:
            client = self._live.get(m)
            if self._s.client[m] is c.MemberState.OFF or client is None:
                continue
            if not client.is_over:
                self._see(seen, m, client)
        return seen

    def _see(self, seen: dict[str, Any], m: c.Member, client: HeldClient) -> None:
        member = client.core.coordinator
        awaits = awaited(client)
        seen["client"][m] = c.MemberState[client.state.name]
        seen["has_id"][m] = bool(member.generation.member_id)
        seen["awaits"][m] = awaits
        is_stable = client.state is states.MemberState.STABLE
        owned, consumes = client.owned, client.core.subscriptions.is_consuming
        if awaits is c.Awaited.NOTHING:
            seen["knows"][m] = member.coordinator is not None
        if is_stable or awaits is c.Awaited.SYNC:
            seen["at"][m] = max(member.generation.generation_id, 0)
        if owned or not is_stable:
            seen["ready"][m] = consumes
        if not is_stable:
            return
        seen["rejoin"][m] = member.rejoin_needed
        seen["leads"][m] = member.assignment_snapshot is not None
        for p in c.Partition:
            seen["given"][m, p] = place(p) in owned
            if place(p) in owned and consumes:
                seen["position"][m, p] = max(owned[place(p)].position or 0, 0)


def not_yet() -> bool:
    """Nothing is given up now."""
    return False


def awaited(client: HeldClient) -> c.Awaited:
    """Which answer a client waits for."""
    if client.state is not states.MemberState.REBALANCING:
        return c.Awaited.NOTHING
    return c.Awaited.JOIN if client.joins else c.Awaited.SYNC
