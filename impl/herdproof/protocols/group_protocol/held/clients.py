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

from collections.abc import Callable
from typing import Any, ClassVar

from herdproof.conformance.adapter import Refused
from herdproof.consuming.events import Consumed
from herdproof.consuming.offsets import Offset
from herdproof.protocols.group_protocol.client.core import states
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.events import (
    ClientRequest,
    MetadataRequest,
    MetadataResponse,
)
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators, place
from herdproof.protocols.group_protocol.messages import (
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
from herdproof.protocols.group_protocol.simulated.gated_clients import (
    CLIENT_STEPS,
    NODE,
    GatedClient,
)
from herdproof.protocols.group_protocol.simulated.gated_coordinators import GROUP
from herdspec.protocols.group_protocol import spec as c

LATE: tuple[type[ClientRequest], ...] = (LeaveGroupRequest, OffsetCommitRequest)
"""Requests that may be read although their connection is over."""
KINDS = {
    c.Awaited.JOIN: JoinGroupRequest, c.Awaited.SYNC: SyncGroupRequest,
}  # fmt: skip


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
        self._live: dict[c.Member, GatedClient] = {}

    def _take(self, action: str, arguments: tuple[Any, ...]) -> Any:
        """A step: the client's before it is the coordinator's, or the spec's."""
        act: Callable[..., None] | None = getattr(self, f"_client_{action}", None)
        if act is not None:
            act(*arguments)
        elif action in CLIENT_STEPS:
            getattr(self._live[arguments[0]], action)()
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

    def _tell_topics(self, client: GatedClient) -> None:
        """It learns which topics there are now."""
        client.read(MetadataRequest)
        there = tuple((place(p)[0], 1) for p in c.Partition if self._s.exists[p])
        client.answered(MetadataRequest, MetadataResponse((NODE,), there))

    # ── Its steps ───────────────────────────────────────────────────────────────────────────

    def _client_subscribe(self, m: c.Member, wanted: set[c.Partition]) -> None:
        topics = sorted(place(p)[0] for p in wanted)
        self._live[m] = GatedClient(self.client, GROUP, f"c{m.index}", topics)

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

    def _client_consume(self, m: c.Member, p: c.Partition) -> None:
        offset = Offset(place(p)[0], "0", self._s.position[m, p] + 1)
        self._live[m].stable().give(Consumed(offset, None))

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

    def _see(self, seen: dict[str, Any], m: c.Member, client: GatedClient) -> None:
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


def awaited(client: GatedClient) -> c.Awaited:
    """Which answer a client waits for."""
    if client.state is not states.MemberState.REBALANCING:
        return c.Awaited.NOTHING
    return c.Awaited.JOIN if client.joins else c.Awaited.SYNC
