"""
The group coordinator's core as an adapter of the spec; its clients are the spec's own.

What clients, the election and topics do, a copy of the spec does; what a coordinator reads, or
hears from the store, is given to a core. What is observed is the core's, the store's, and what
clients were answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from herdproof.conformance.adapter import PickledAdapter, Refused
from herdproof.consuming.consumer_protocol import (
    read_assignment,
    write_assignment,
    write_subscription,
)
from herdproof.protocols.group_protocol.client.core.offset_requests import to_commit
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator, Reign
from herdproof.protocols.group_protocol.coordinator.groups import CONSUMER, ClassicGroup
from herdproof.protocols.group_protocol.coordinator.states import GroupState as CoreState
from herdproof.protocols.group_protocol.effects import (
    GroupAnswer,
    GroupEffect,
    StoredClassicGroup,
    StoredCommit,
    StoreGroup,
    TopicPartition,
)
from herdproof.protocols.group_protocol.messages import (
    Error,
    GroupProtocol,
    GroupRequest,
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
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.steps import Step
from herdproof.protocols.group_protocol.stores.memory import applied
from herdspec.check.running.run import machine
from herdspec.language.specification import Specification
from herdspec.language.surface import Disabled, sizes_of_sorts
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol import spec as c
from herdspec.protocols.group_protocol.properties import HELD

GROUP = "g"
SESSION_MS, DELAY_MS, REBALANCE_MS = 10_000, 10**8, 2**50
"""No rebalance is ever given up: who does not come is expelled when its session ends."""
SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=DELAY_MS, group_max_session_timeout_ms=2**50
)
DELAYED = (CoreState.EMPTY, CoreState.PREPARING_REBALANCE)
"""The states of a group before, and while, more are waited for."""
ANSWERED = ("down", "said", "given", "rejoin", "has_id", "position", "exists")
"""What an answer tells a client; and which partitions there are, as it begins."""
SAME = {
    "doubt": "step_down", "expire_gone": "expire",
    **dict.fromkeys(("store_empty_generation", "store_offsets"), "done"),
    **dict.fromkeys(("answer_joins", "answer_syncs", "answer_commits"), "heard"),
}  # fmt: skip
"""What happens to cores with an action, where that has another one's name."""
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


def commit_of(stored: StoredCommit | None) -> int:
    """A stored offset; 0 for none."""
    return stored.offset if stored is not None else 0


class HeldNumbers:
    """Counts: requests, and member ids."""

    last = 0

    def __call__(self) -> int:
        """Another number."""
        self.last += 1
        return self.last

    def text(self) -> str:
        """Another one, as a text."""
        return str(self())


class HeldCoordinators(PickledAdapter):
    """A core for each broker, one group, a store in memory."""

    timeout = None
    pumped = True
    constant = ("_machine",)
    silent = ("complete_join", "flush_offsets")
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
    core: ClassVar[type[GroupCoordinator]] = GroupCoordinator
    clients: ClassVar[Specification] = HELD
    """What its clients do, and topics, and the election."""
    switches: ClassVar[frozenset[str]] = frozenset()
    """The mistakes of its cores."""

    def begin(self, Broker: int, Member: int, Partition: int) -> None:  # noqa: N803
        """So many of each; nobody is elected."""
        self._sizes = {"Broker": Broker, "Member": Member, "Partition": Partition}
        self._machine = machine(self.clients, **self._sizes)
        with sizes_of_sorts(self._sizes):
            self._s: Any = self._machine.initial()
        self._numbers = HeldNumbers()
        self._now_ms = 1_000_000
        self._cores = [self._new() for _ in range(Broker)]
        self._leader: int | None = None
        self._stored = StoredClassicGroup()
        self._write: StoreGroup | None = None
        self._is_done = False
        self._noted: dict[TopicPartition, int] = {}
        """The offsets that were taken since the group was loaded, by partition."""
        self._ids: dict[c.Member, str] = {}
        """Of each client, the last member id that was given to it."""
        self._callers: dict[int, c.Member] = {}
        self._current: dict[c.Member, int] = {}
        """Of each client that awaits an answer: the number of what was read of it."""
        self._took: list[str] = []

    def start(self, state: c.GroupProtocol) -> None:
        """Begin with these partitions."""
        self._s = state.copy()

    def observe(self) -> dict[str, Any]:
        """What is stored, what the coordinator has in memory, what its clients were answered."""
        with sizes_of_sorts(self._sizes):
            seen = {**self._in_store(), **self._in_memory(), **self._told()}
            return seen | self._taken_offsets()

    def pump(self) -> None:
        """What is due is done; a group that was empty has waited for more to come."""
        group = self._group
        with sizes_of_sorts(self._sizes):
            self._tick()
            while group and (group.before, group.state) == DELAYED:
                self._pass(DELAY_MS)
            self._follow()

    # ── What is seen ────────────────────────────────────────────────────────────────────────

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

    def _take(self, action: str, arguments: tuple[Any, ...]) -> Any:
        """A step: the core's, and the spec's, whose clients go on with what the core has said."""
        before = self._s.copy()
        for m in Member:
            if self._s.awaits[m] == c.Awaited.NOTHING or self._s.up[m]:
                self._current.pop(m, None)
        self._answers: dict[c.Member, GroupResponse] = {}
        act: Callable[..., Any] | None = getattr(self, f"_{SAME.get(action, action)}", None)
        chose = act(*arguments) if act is not None else None
        self._step(action, (*arguments, *(() if chose is None else (chose,))))
        if act is not None:
            self._hear(before)
        self._follow()
        return chose

    def _step(self, action: str, arguments: tuple[Any, ...]) -> None:
        after = self._s.copy()
        self._machine.method(after, action, arguments)
        self._s = after

    def _follow(self) -> None:
        """What the core did by itself; an offset that is stored already is not stored anew."""
        took, self._took = self._took, []
        for action in took:
            try:
                self._step(action, ())
            except Disabled:
                if action != "flush_offsets":
                    raise
                self._done()
                self._heard()

    def _hear(self, before: c.GroupProtocol) -> None:
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

    # ── The cores ───────────────────────────────────────────────────────────────────────────

    @property
    def _coordinator(self) -> GroupCoordinator | None:
        return None if self._leader is None else self._cores[self._leader]

    @property
    def _group(self) -> ClassicGroup | None:
        core = self._coordinator
        return None if core is None else core.groups.get(GROUP)

    def _new(self) -> GroupCoordinator:
        return self.core(SETTINGS, self._numbers.text)

    def _ask(self, m: c.Member, request: GroupRequest, *, awaits: bool = True) -> None:
        core, caller = self._coordinator, self._numbers()
        if core is None:
            raise Refused("nobody reads it")
        self._callers[caller] = m
        if awaits:
            self._current[m] = caller
        self._perform(core.handle(self._now_ms, caller, request), caller)

    def _answer(self, m: c.Member, told: GroupResponse) -> None:
        """A client is answered."""
        self._answers[m] = told

    def _ask_now(self, m: c.Member, request: GroupRequest) -> None:
        """Ask what the spec has answered at once."""
        self._ask(m, request, awaits=False)
        if m not in self._answers:
            raise Refused("it is not answered yet")

    def _perform(self, effects: Iterable[GroupEffect], present: int = 0) -> None:
        for effect in effects:
            match effect:
                case GroupAnswer(caller=caller, response=told):
                    m = self._callers.pop(caller)
                    if caller in (present, self._current.get(m)):
                        self._answer(m, told)
                case StoreGroup():
                    self._write, self._is_done = effect, False
                    self._noted |= {w: commit_of(of) for w, of in effect.offsets.items()}
                case Step(action="handle_join_group", member=name) if name:
                    self._ids[bearer(name)] = name
                case Step(action=action) if action in self.silent:
                    self._took.append(action)

    def _forget(self, b: Broker) -> None:
        if self._leader == b.index:
            self._unload()

    def _unload(self) -> None:
        """Nobody coordinates, and nobody who asked is answered."""
        self._leader, self._write, self._is_done = None, None, False
        self._callers.clear()
        self._noted.clear()

    def _load_group(self, b: Broker) -> None:
        self._unload()
        self._leader, core = b.index, self._cores[b.index]
        self._perform(core.load(self._now_ms, self._s.election.epoch))
        empty = self._stored == StoredClassicGroup()
        self._perform(core.lead(self._now_ms, {} if empty else {GROUP: self._stored}))

    def _step_down(self, b: Broker) -> None:
        self._forget(b)
        if self._cores[b.index].reign is not Reign.NOT_ELECTED:
            self._cores[b.index].resign(self._now_ms)

    def _restart(self, b: Broker) -> None:
        self._forget(b)
        self._cores[b.index] = self._new()

    # ── What it reads ───────────────────────────────────────────────────────────────────────

    def _handle_join_group(self, m: c.Member) -> None:
        """Who has lost its id, and is still stored, would be another one; in the spec it is not."""
        is_stored = self._s.leader == m or self._s.belongs[m]
        if is_stored and not self._s.has_id[m]:
            raise Refused
        topics = tuple(place(p)[0] for p in Partition if self._s.interest[m, p])
        request = JoinGroupRequest(
            version=9, client_id=f"c{m.index}", group_id=GROUP,
            member_id=self._ids[m] if self._s.has_id[m] else "",
            session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS,
            protocol_type=CONSUMER, protocols=(GroupProtocol("plan", write_subscription(topics)),),
        )  # fmt: skip
        self._ask(m, request)

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

    def _pass(self, ms: int, unheard: str = "") -> None:
        """So much time passes; all are heard meanwhile, but one."""
        core, group = self._coordinator, self._group
        assert core is not None
        assert group is not None
        self._now_ms += ms
        ends_ms = {unheard: self._now_ms}
        watched = core.context.purgatory
        for key, (_, ended) in [*watched.watchers.items()]:
            match key:
                case ("session", (_, name)):
                    watched.watch(key, ends_ms.get(name, self._now_ms + SESSION_MS), ended)
        for name, member in group.members.items():
            member.deadline_ms = ends_ms.get(name, self._now_ms + SESSION_MS)
        self._tick()

    def _is_due(self) -> bool:
        core = self._coordinator
        return core is not None and (core.next_deadline or self._now_ms + 1) <= self._now_ms

    def _tick(self) -> None:
        """What is due is done."""
        while self._is_due():
            assert self._coordinator is not None
            self._perform(self._coordinator.tick(self._now_ms))

    # ── The store ───────────────────────────────────────────────────────────────────────────

    def _done(self) -> None:
        assert self._write is not None
        self._stored = applied(self._stored, self._write) or StoredClassicGroup()
        self._is_done = True

    def _heard(self) -> None:
        core, write = self._coordinator, self._write
        assert core is not None
        assert write is not None
        self._write, self._is_done = None, False
        self._perform(core.stored(self._now_ms, write.token, True))

    def _store_generation(self) -> c.Member | None:
        self._done()
        assert self._stored.metadata is not None
        return self._member(self._stored.metadata.leader)

    def _store_assignment(self) -> dict[c.Partition, c.Member | None]:
        self._done()
        owners = self._in_store().get("owner", {})
        return {p: owners.get(p) for p in Partition}


def _method(action: str) -> Callable[..., Any]:
    """Takes the step that an action names."""

    def method(self: HeldCoordinators, *arguments: Any) -> Any:
        with sizes_of_sorts(self._sizes):
            return self._take(action, arguments)

    return method


for _action in HELD.actions:
    if _action.name not in HeldCoordinators.silent:
        setattr(HeldCoordinators, _action.name, _method(_action.name))
