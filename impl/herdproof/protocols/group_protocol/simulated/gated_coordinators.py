"""
The coordinators of system C, of which a test decides what comes when: a core for each broker.

One group, whose requests are read one at a time, and a store in memory: what a core wants to have
stored waits until the test has it done, and is heard of when the test wants it. Time passes for
whom the test says; nobody else's session ends.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Iterable
from typing import ClassVar, Generic, TypeVar

from herdproof.conformance.adapter import Refused
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator, Reign
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.effects import (
    GroupAnswer,
    GroupEffect,
    StoredClassicGroup,
    StoredCommit,
    StoreGroup,
    TopicPartition,
)
from herdproof.protocols.group_protocol.messages import GroupRequest, GroupResponse
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.steps import GroupStep
from herdproof.protocols.group_protocol.stores.memory import applied

GROUP = "g"
SESSION_MS, DELAY_MS, REBALANCE_MS = 10_000, 10**8, 2**50
"""No rebalance is ever given up: who does not come is expelled when its session ends."""
SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=DELAY_MS, group_max_session_timeout_ms=2**50
)
DELAYED = (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
"""The states of a group before, and while, more are waited for."""

M = TypeVar("M", bound=Hashable)
"""The name of a client, in the test's terms."""


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


class GatedCoordinators(Generic[M]):
    """A core for each broker, one group, a store in memory."""

    core: ClassVar[type[GroupCoordinator]] = GroupCoordinator
    silent: ClassVar[Collection[str]]
    """The steps that cores take by themselves, which are noted."""
    _took: list[str]
    """The steps that they took within the present step."""

    def _open_world(self, brokers: int) -> None:
        """Begin with so many brokers; nobody is elected."""
        self._numbers = HeldNumbers()
        self._now_ms = 1_000_000
        self._cores = [self._new() for _ in range(brokers)]
        self._leader: int | None = None
        self._stored = StoredClassicGroup()
        self._write: StoreGroup | None = None
        self._is_done = False
        self._noted: dict[TopicPartition, int] = {}
        """The offsets that were taken since the group was loaded, by partition."""
        self._ids: dict[M, str] = {}
        """Of each client, the last member id that was given to it."""
        self._callers: dict[int, M] = {}
        self._current: dict[M, int] = {}
        """Of each client that awaits an answer: the number of what was read of it."""
        self._answers: dict[M, GroupResponse] = {}
        """Of each client, what it was answered within the present step."""

    @abstractmethod
    def _bearer(self, member_id: str) -> M:
        """The client that a member id was given to."""

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

    def _ask(self, m: M, request: GroupRequest, *, awaits: bool = True) -> None:
        """Have a client's request read by whoever coordinates."""
        core, caller = self._coordinator, self._numbers()
        if core is None:
            raise Refused("nobody reads it")
        self._callers[caller] = m
        if awaits:
            self._current[m] = caller
        self._perform(core.handle(self._now_ms, caller, request), caller)

    def _ask_now(self, m: M, request: GroupRequest) -> None:
        """Have a request read that is answered at once."""
        self._ask(m, request, awaits=False)
        if m not in self._answers:
            raise Refused("it is not answered yet")

    def _answer(self, m: M, told: GroupResponse) -> None:
        """Answer a client."""
        self._answers[m] = told

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
                case GroupStep(action="handle_join_group", member=name) if name:
                    self._ids[self._bearer(name)] = name
                case GroupStep(action=action) if action in self.silent:
                    self._took.append(action)

    def _unload(self) -> None:
        """Nobody coordinates, and nobody who asked is answered."""
        self._leader, self._write, self._is_done = None, None, False
        self._callers.clear()
        self._noted.clear()

    def _forget(self, broker: int) -> None:
        """A broker coordinates no more, if it did."""
        if self._leader == broker:
            self._unload()

    def _load(self, broker: int, epoch: int) -> None:
        """A broker was elected in this epoch, and loads the group."""
        self._unload()
        self._leader, core = broker, self._cores[broker]
        self._perform(core.load(self._now_ms, epoch))
        empty = self._stored == StoredClassicGroup()
        self._perform(core.lead(self._now_ms, {} if empty else {GROUP: self._stored}))

    def _resign(self, broker: int) -> None:
        """A broker learns that it is not elected any more."""
        self._forget(broker)
        if self._cores[broker].reign is not Reign.NOT_ELECTED:
            self._cores[broker].resign(self._now_ms)

    def _begin_anew(self, broker: int) -> None:
        """A broker's process ends, and another one begins."""
        self._forget(broker)
        self._cores[broker] = self._new()

    # ── Time ────────────────────────────────────────────────────────────────────────────────

    def _go_on(self) -> None:
        """Do what is due; a group that was empty has waited for more to come."""
        group = self._group
        self._tick()
        while group and (group.before, group.state) == DELAYED:
            self._pass(DELAY_MS)

    def _pass(self, ms: int, unheard: str = "") -> None:
        """Let time pass; all are heard meanwhile, but one."""
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
        """Do what is due."""
        while self._is_due():
            assert self._coordinator is not None
            self._perform(self._coordinator.tick(self._now_ms))

    # ── The store ───────────────────────────────────────────────────────────────────────────

    def _done(self) -> None:
        """Store what was sent."""
        assert self._write is not None
        self._stored = applied(self._stored, self._write) or StoredClassicGroup()
        self._is_done = True

    def _heard(self) -> None:
        """The coordinator hears that it is stored."""
        core, write = self._coordinator, self._write
        assert core is not None
        assert write is not None
        self._write, self._is_done = None, False
        self._perform(core.stored(self._now_ms, write.token, True))
