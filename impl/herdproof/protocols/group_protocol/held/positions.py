"""
Our client's core held to the spec of fetch positions: `variants/positions/spec.py`.

OffsetFetch, OffsetCommit and their answers are under way as in the spec: a request is taken from
the core when the spec has it sent, whatever the core sends meanwhile, and an answer is heard when
the spec has it heard, or late. The log is the spec's, and what fetchers find out about it; so is
whether what a position is at is out of range.

The core's users commit, and its polls do when the spec says; before it joins again nothing may be
left to commit: it would wait for the answer, where the spec sends JoinGroup right behind.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

from herdproof.conformance.adapter import Refused
from herdproof.conformance.beside import beside
from herdproof.consuming.events import CommitAsked, Deliver, Resolved, StartFetchers
from herdproof.consuming.offsets import Offset, OffsetReset
from herdproof.protocols.group_protocol.client.core import states
from herdproof.protocols.group_protocol.client.core.events import (
    ClientEffect,
    Fail,
    RequestAnswered,
    SendRequest,
)
from herdproof.protocols.group_protocol.effects import GroupAnswer, GroupEffect, StoredCommit
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators, partition, place
from herdproof.protocols.group_protocol.held.clients import HeldClients
from herdproof.protocols.group_protocol.messages import (
    Error,
    FetchedGroup,
    FetchedPartition,
    FetchedTopic,
    GroupRequest,
    GroupResponse,
    GroupToFetch,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    PartitionResult,
    TopicResult,
)
from herdproof.protocols.group_protocol.simulated.gated_clients import GatedClient
from herdproof.protocols.group_protocol.simulated.gated_coordinators import GROUP
from herdspec.protocols.group_protocol import spec as c
from herdspec.protocols.group_protocol.variants.positions import spec as v
from herdspec.protocols.group_protocol.variants.positions.properties import POSITIONS

RESETS = {
    v.OffsetReset.LATEST: OffsetReset.LARGEST, v.OffsetReset.EARLIEST: OffsetReset.SMALLEST,
    v.OffsetReset.NONE: None,
}  # fmt: skip
CANNOT_TELL = OffsetFetchResponse(
    groups=(FetchedGroup(GROUP, (FetchedTopic("t0", (FetchedPartition(0, error=Error(-1)),)),)),)
)
"""The answer of a coordinator that cannot tell offsets yet; unknown codes are read as this one."""
TOO_LATE = OffsetCommitResponse(
    topics=(TopicResult("t0", (PartitionResult(0, Error.ILLEGAL_GENERATION),)),)
)


def _revived(fields: dict[str, Any]) -> Any:
    state = POSITIONS.state.__new__(POSITIONS.state)
    vars(state).update(fields)
    return state


copyreg.pickle(POSITIONS.state, lambda state: (_revived, (vars(state),)))  # it has no module


class PositionedClient(GatedClient):
    """A client's core, what its fetchers were told to deliver, and what its user was told."""

    def __init__(self, *arguments: Any) -> None:
        self.delivers: set[str] = set()
        self.has_failed = False
        super().__init__(*arguments)

    def perform(self, effect: ClientEffect) -> tuple[()]:
        """Note what fetchers and users are told."""
        match effect:
            case StartFetchers():
                self.has_failed = False
                known = [o.topic for o in effect.partitions if o.offset >= 0]
                self.delivers = {*known}
            case Deliver(partition=named):
                self.delivers.add(named.topic)
            case Fail():
                self.has_failed = True
        return super().perform(effect)

    def is_asked(self, send: SendRequest) -> bool:
        """It still waits for the answer to this."""
        return send.number in self.core.client._in_flight


@beside(POSITIONS)
class HeldPositions(HeldClients):
    """A core for each broker, one for each client; offsets come when the spec says so."""

    reluctant = (
        *HeldClients.reluctant, "initiate_join_group", "fetch_committed", "handle_offset_fetch",
        "store_starts", "deliver", "resolve_start", "maybe_auto_commit_offsets_async",
        "lose_offset_fetch", "handle_offset_commit",
    )  # fmt: skip

    absent: ClassVar = {
        **HeldClients.absent,
        "update_metadata": "all partitions are there, and it knew them when it planned",
    }

    appear = None  # all partitions are there

    def begin(self, Broker: int, Member: int, Partition: int) -> None:  # noqa: N803 - sorts
        """Nothing is under way."""
        super().begin(Broker, Member, Partition)
        self._fetching: dict[c.Member, SendRequest] = {}
        self._offsets: dict[c.Member, OffsetFetchResponse] = {}
        self._committing: dict[c.Member, SendRequest] = {}
        self._commits: dict[int, tuple[c.Member, SendRequest]] = {}
        """By the coordinator's caller, the OffsetCommit that it has read."""
        self._stored_of: dict[c.Member, list[tuple[SendRequest, OffsetCommitResponse]]] = {}
        """Answers to OffsetCommits that were not heard."""

    def start(self, state: Any) -> None:
        """Some offsets may be stored at first."""
        super().start(state)
        known = {place(p): int(state.committed[p]) for p in c.Partition if state.committed[p]}
        offsets = {where: StoredCommit(offset=offset) for where, offset in known.items()}
        self._stored = replace(self._stored, offsets=offsets)

    # ── What is sent, read and answered ─────────────────────────────────────────────────────

    def _ask(self, m: c.Member, request: GroupRequest, *, awaits: bool = True) -> None:
        match request:
            case OffsetFetchRequest():
                HeldCoordinators._ask(self, m, request, awaits=awaits)
            case OffsetCommitRequest():
                send = self._committing.pop(m)
                assert isinstance(send.request, OffsetCommitRequest)
                self._commits[self._numbers.last + 1] = m, send
                HeldCoordinators._ask(self, m, send.request, awaits=awaits)
            case _:
                super()._ask(m, request, awaits=awaits)

    def _answer(self, m: c.Member, told: GroupResponse) -> None:
        match told:
            case OffsetFetchResponse():
                self._answers[m] = self._offsets[m] = told
            case OffsetCommitResponse():
                self._answers[m] = told
            case _:
                super()._answer(m, told)

    def _perform(self, effects: Iterable[GroupEffect], present: int = 0) -> None:
        todo = [*effects]
        for effect in todo:
            if isinstance(effect, GroupAnswer) and effect.caller in self._commits:
                m, send = self._commits.pop(effect.caller)
                assert isinstance(effect.response, OffsetCommitResponse)
                self._stored_of.setdefault(m, []).append((send, effect.response))
        super()._perform(todo, present)

    def _hears(self, s: Any, m: c.Member, told: GroupResponse) -> None:
        if not isinstance(told, OffsetFetchResponse):
            super()._hears(s, m, told)
            return
        for topic in told.groups[0].topics:
            if s.given[m, p := partition(topic.name)]:
                s.told[m, p] = max(topic.partitions[0].offset, 0)

    def _unload(self) -> None:
        super()._unload()
        self._commits.clear()
        self._committing.clear()
        for m in [m for m in self._fetching if m not in self._offsets]:
            del self._fetching[m]

    # ── Where to begin ──────────────────────────────────────────────────────────────────────

    def _client_fetch_committed(self, m: c.Member) -> None:
        """Who has no partition has nothing to ask for."""
        if not any(self._s.given[m, p] for p in c.Partition):
            return
        client = self._live[m].stable()
        send = client.sent.pop(OffsetFetchRequest, None)
        if send is None or not self._is_positioned(client).is_asked(send):
            raise Refused("it does not ask")
        self._fetching[m] = send

    def _handle_offset_fetch(self, m: c.Member) -> None:
        """While anything of a group is being stored, it is not answered yet."""
        request = OffsetFetchRequest(version=9, groups=(GroupToFetch(GROUP, None),))
        if m in self._fetching:
            asked = self._fetching[m].request
            assert isinstance(asked, OffsetFetchRequest)
            request = asked
        self._ask_now(m, request)

    def _client_lose_offset_fetch(self, m: c.Member) -> None:
        send = self._fetching.pop(m, None)
        self._offsets.pop(m, None)
        if send is not None:
            self._live[m].give(RequestAnswered(send.number, CANNOT_TELL))

    def _client_update_fetch_positions(self, m: c.Member) -> None:
        client, send = self._live[m], self._fetching.get(m)
        if send is None:
            self._offsets.pop(m, None)
            client.go_on()
            return
        if self._s.fetches_at[m] and not self._is_positioned(client).is_asked(send):
            raise Refused("its connection is over")
        if self._s.fetches_at[m] and client.core.coordinator.rejoin_needed:
            raise Refused("it joins first")
        client.give(RequestAnswered(send.number, self._offsets.pop(m)))
        del self._fetching[m]
        client.go_on()

    def _update_fetch_positions(self, m: c.Member) -> None:
        """The coordinator has answered before."""

    def _client_resolve_start(self, m: c.Member, p: c.Partition) -> None:
        client, s = self._live[m], self._s
        if not client.core.subscriptions.is_consuming:
            raise Refused("its fetchers do not run")
        start = s.log_end[p] if s.reset is v.OffsetReset.LATEST else s.log_start[p]
        self._is_positioned(client).delivers.discard(place(p)[0])
        generation = client.core.subscriptions.generation
        client.give(Resolved(Offset(place(p)[0], "0", start), generation))

    def _client_store_starts(self, m: c.Member) -> None:
        self._live[m].stable()
        self._sends_commit(m)

    def _client_deliver(self, m: c.Member, p: c.Partition) -> None:
        answers = self._stored_of.pop(m, [])
        if not answers or any(is_refused(told) for _, told in answers):
            raise Refused("it is not told yet")
        self._hear(m, answers)
        if place(p)[0] not in self._is_positioned(self._live[m]).delivers:
            raise Refused("it has sent nothing else")

    # ── Commits ─────────────────────────────────────────────────────────────────────────────

    def _client_commit(self, m: c.Member) -> None:
        client = self._live[m].stable()
        client.commits += 1
        client.give(CommitAsked(client.commits))
        self._sends_commit(m)

    def _client_maybe_auto_commit_offsets_async(self, m: c.Member) -> None:
        """Its poll ends, and it is time."""
        client = self._live[m].stable()
        member = client.core.coordinator
        own = member.settings
        client.pass_ms(own.auto_commit_interval_ms)
        member.settings = replace(own, auto_commit=True)
        member.maybe_auto_commit_offsets_async(client.now_ms)
        member.settings = own
        client.go_on()
        self._sends_commit(m)

    def _sends_commit(self, m: c.Member) -> None:
        send = self._live[m].sent.pop(OffsetCommitRequest, None)
        if send is None:
            raise Refused("it has nothing to commit")
        self._committing[m] = send

    def _client_initiate_join_group(self, m: c.Member) -> None:
        """Commits that are answered now are of a generation that is over."""
        s, client = self._s, self._live[m]
        fresh = [p for p in c.Partition if s.consumes(m, p) and s.position[m, p] != s.committed[p]]
        if fresh:
            raise Refused("it would wait for the answer to a commit")
        client.initiate_join_group()
        self._is_positioned(client).has_failed = False  # of the assignment that it has given up
        late = client.sent.pop(OffsetCommitRequest, None)
        self._hear(m, [*self._stored_of.pop(m, []), *([(late, TOO_LATE)] if late else [])])

    def _hear(
        self, m: c.Member, answers: Iterable[tuple[SendRequest, OffsetCommitResponse]]
    ) -> None:
        for send, told in answers:
            self._live[m].give(RequestAnswered(send.number, told))

    # ── Clients ─────────────────────────────────────────────────────────────────────────────

    def _client_subscribe(self, m: c.Member, wanted: set[c.Partition]) -> None:
        for table in (self._fetching, self._offsets, self._committing, self._stored_of):
            table.pop(m, None)
        topics = sorted(place(p)[0] for p in wanted)
        reset = RESETS[self._s.reset]
        self._live[m] = PositionedClient(self.client, GROUP, f"c{m.index}", topics, reset)

    def _is_positioned(self, client: GatedClient) -> PositionedClient:
        assert isinstance(client, PositionedClient)
        return client

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def _told(self) -> dict[str, Any]:
        """Of who lives also where it begins, and of all what they were told is stored."""
        seen: dict[str, Any] = {"unstored": {}, "has_failed": {}, **super()._told()}
        asked = {
            (m, p): commit.offset
            for m, send in self._committing.items()
            if isinstance(send.request, OffsetCommitRequest)
            for p in c.Partition
            for topic in send.request.topics
            for commit in topic.partitions
            if topic.name == place(p)[0]
        }
        world = {name: dict(getattr(self._s, name)) for name in ("told", "log_start", "log_end")}
        return seen | world | {"reset": self._s.reset, "committing": asked}

    def _see(self, seen: dict[str, Any], m: c.Member, client: GatedClient) -> None:
        super()._see(seen, m, client)
        own = self._is_positioned(client)
        is_stable = client.state is states.MemberState.STABLE
        if is_stable and client.owned and not client.core.subscriptions.is_consuming:
            seen.setdefault("has_failed", {})[m] = own.has_failed
        for p in c.Partition:
            if is_stable and place(p) in client.owned and client.core.subscriptions.is_consuming:
                has_start = (client.owned[place(p)].position or 0) > 0
                waits = has_start and place(p)[0] not in own.delivers
                seen.setdefault("unstored", {})[m, p] = waits


class HearsErrorsLater(HeldPositions):
    """Clients that take the answer that offsets cannot be told yet when they would take offsets."""

    def _client_lose_offset_fetch(self, m: c.Member) -> None:
        self._offsets[m] = CANNOT_TELL


def is_refused(told: OffsetCommitResponse) -> bool:
    """Some offset was not taken."""
    return any(p.error for topic in told.topics for p in topic.partitions)
