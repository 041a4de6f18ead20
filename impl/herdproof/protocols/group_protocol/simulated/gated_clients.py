"""
A client of system C, of which a test decides what comes when: its core behind gates.

What it sends is held until somebody reads it, and what it is answered until it is to hear it. Its
assignor gives each topic to another member every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from herdproof.conformance.adapter import Refused
from herdproof.conformance.gates import GatedProcess
from herdproof.consuming.events import CommitAsked, Shutdown, Tick
from herdproof.consuming.offsets import OffsetReset
from herdproof.consuming.subscription import named
from herdproof.protocols.group_protocol.client.assignors.assignor import (
    MemberSubscription,
    PlainAssignor,
    Plan,
)
from herdproof.protocols.group_protocol.client.core import states
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.events import (
    ClientEffect,
    ClientRequest,
    ClientResponse,
    Disconnected,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    Node,
    Poll,
    RequestAnswered,
    SendRequest,
    SubscribeTo,
)
from herdproof.protocols.group_protocol.client.core.settings import ClientSettings
from herdproof.protocols.group_protocol.client.core.subscriptions import PartitionState
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import (
    Error,
    GroupResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)

NODE = Node(0, "coordinator", 9092)
NEVER_MS, SESSION_MS, POLL_MS, BEAT_MS, BACK_OFF_MS = 2**60, 2**50, 2**40, 2**30, 1
NOTHING = "nothing"
"""A topic that is never there: whoever is to subscribe to nothing subscribes to this."""
CLIENT_STEPS = (
    "close", "lookup_coordinator", "initiate_join_group", "heartbeat", "session_time_out",
    "poll_time_out", "commit",
)  # fmt: skip
"""The spec's actions that a client takes alone."""


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


class GatedClient(GatedProcess[GroupConsumer]):
    """A client's core, what it has sent, and what it was answered."""

    is_cut = is_over = joins = False
    """
    Nobody is left at the other end of its connection; a heartbeat told that it is over; what it has
    sent last is JoinGroup.
    """
    commits = 0

    def __init__(
        self, core: type[GroupConsumer], group: str, name: str, topics: Sequence[str],
        reset: OffsetReset | None = OffsetReset.SMALLEST,
    ) -> None:  # fmt: skip
        settings = ClientSettings(
            group_id=group, client_id=name, session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=BEAT_MS, max_poll_interval_ms=POLL_MS,
            request_timeout_ms=NEVER_MS, retry_backoff_ms=BACK_OFF_MS, auto_commit=False,
            metadata_max_age_ms=NEVER_MS, auto_offset_reset=reset,
        )  # fmt: skip
        client = core(settings, [NODE], [TakesTurns()])
        super().__init__(client, client.coordinator, polled=["ensure_active_group"])
        self.sent: dict[type[ClientRequest], SendRequest] = {}
        """Requests that nobody has read, by kind."""
        self.answer: GroupResponse | None = None
        """Answer that it has not heard."""
        self.asked: dict[type[ClientRequest], int] = {}
        """By kind the number of what was read last."""
        self.give(SubscribeTo(named(dict.fromkeys([NOTHING, *topics], 1))))

    def perform(self, effect: ClientEffect) -> tuple[()]:
        """Hold what the core sends."""
        if isinstance(effect, SendRequest):
            self.sent[type(effect.request)] = effect
            self.joins |= isinstance(effect.request, JoinGroupRequest)
        return ()

    def go_on(self) -> None:
        """A moment passes, and its user polls."""
        self.now_ms += BACK_OFF_MS
        self.give(Poll(POLL_MS))

    def pass_ms(self, ms: int) -> None:
        """Let time pass, in which its user does not poll."""
        self.now_ms += ms
        self.give(Tick())

    def join(self) -> None:
        """It goes on with the join that is under way, or with the next."""
        self.go_on()
        self.look("ensure_active_group")
        self.go_on()

    def complete(self) -> None:
        """It takes its assignment; should it have to join again, that waits."""
        vars(self.core.coordinator)["on_join_prepare"] = not_yet
        self.join()
        del vars(self.core.coordinator)["on_join_prepare"]

    def read(self, kind: type[ClientRequest]) -> ClientRequest:
        """Read the request of this kind that it has sent."""
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
        """Drop the requests to the coordinator that it has sent: nobody will read them."""
        for kind in [kind for kind, send in self.sent.items() if send.node != NODE]:
            del self.sent[kind]

    # ── Steps under the actions' names ──────────────────────────────────────────────────────

    def close(self) -> None:
        """Its user closes it."""
        self.give(Shutdown())

    def lookup_coordinator(self) -> None:
        """It looks the coordinator up, and is told."""
        self.find()

    def initiate_join_group(self) -> None:
        """It sends JoinGroup."""
        self.is_over = False
        for _ in range(2):
            if JoinGroupRequest not in self.sent:
                self.join()
        if JoinGroupRequest not in self.sent:
            raise Refused("it does not")

    def heartbeat(self) -> None:
        """It sends a heartbeat; one of a former generation is answered before, and says nothing."""
        present = self.core.coordinator.generation.generation_id
        match self.sent.get(HeartbeatRequest):
            case SendRequest(request=HeartbeatRequest(generation_id=former)) if former != present:
                self.read(HeartbeatRequest)
                over = HeartbeatResponse(error=Error.ILLEGAL_GENERATION)
                self.answered(HeartbeatRequest, over)
        self.go_on()
        self.pass_ms(BEAT_MS)

    def session_time_out(self) -> None:
        """It has heard of nobody for the length of its session."""
        self.stable().pass_ms(SESSION_MS)
        self.asked.clear()
        self.sent.pop(OffsetFetchRequest, None)

    def poll_time_out(self) -> None:
        """Its user has not polled for too long."""
        self.stable().pass_ms(POLL_MS)

    def commit(self) -> None:
        """Its user commits."""
        self.stable()
        self.commits += 1
        self.give(CommitAsked(self.commits))
        if OffsetCommitRequest not in self.sent:
            raise Refused("it has nothing to commit")

    def stable(self) -> GatedClient:
        """Itself, if it is STABLE, and knows who coordinates."""
        self.go_on()
        if self.state is not states.MemberState.STABLE or self.core.coordinator.coordinator is None:
            raise Refused("it is not STABLE, or knows nobody")
        return self

    # ── What it has ─────────────────────────────────────────────────────────────────────────

    @property
    def owned(self) -> Mapping[TopicPartition, PartitionState]:
        """The partitions that it is assigned."""
        return self.core.subscriptions.assignment

    @property
    def state(self) -> states.MemberState:
        """The member's state."""
        return self.core.coordinator.state


def not_yet() -> bool:
    """Nothing is given up now."""
    return False
