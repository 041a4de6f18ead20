"""
The election's spec beside its implementation: the same step on both, and the same state after it.

`Observer` reads a simulated world as a state of the spec: from the cores' fields, from their
inboxes and from the simulated ZooKeeper, never from the spec's state. `act` does to the world what
an action of the spec names. `Lockstep` does both, and compares after every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from types import MappingProxyType, new_class
from typing import Any, Self, cast

from herdproof.errors import HerdError
from herdproof.link.flawed_election import MineByData, simulated_with
from herdproof.simulator.election import Broker, SimulatedElection
from herdproof.simulator.gated import Impossible
from herdproof.simulator.tree import Nodes
from herdproof.simulator.zookeeper import Session
from herdproof.zookeeper.elector import Answered, Call, Elector, LeaderChanged, read_leader
from herdproof.zookeeper.operations import Answer, Data, Done, Found, Link, Refusal, Stat, Why
from herdproof.zookeeper.shell import NothingWaits, Observe, ignore_event
from herdspec.check.run import Machine, Step, said, told
from herdspec.engine.ground import FAULTS, Ground, SlotKey
from herdspec.language.specification import Specification
from herdspec.language.surface import Disabled, Spec, sizes_of_sorts
from herdspec.language.values import decode
from herdspec.protocols import election as spec

OF_THE_WORLD = ("holder", "orphan", "epoch", "elected", "stale_write_accepted", FAULTS)
"""The fields that `Observer` reads of a world as a whole, in the order in which it does."""
OF_A_BROKER = (
    "alive", "watch", "behind", "view", "view_epoch", "connected", "answer", "number",
    "link", "stands", "leads", "token", "call", "due", "paused",
)  # fmt: skip
"""The fields that `Observer` reads of each broker, in the order in which it does."""

BOUND = 254
"""A bound of naturals, as lowering wants one; the plain Python that is run here knows none."""

CALLS = {call: list(spec.Call).index(spec.Call(call.value)) for call in Call}
LINKS = {link: list(spec.Link).index(spec.Link(link.value)) for link in Link}
NONE, ABSENT, OTHERS, MINE, EPOCH, CREATED, DELETED, REFUSED = (
    list(spec.Answer).index(spec.Answer[name])
    for name in ("NONE", "ABSENT", "OTHERS", "MINE", "EPOCH", "CREATED", "DELETED", "REFUSED")
)
VIEW_ABSENT, VIEW_OTHERS, VIEW_MINE = (
    list(spec.View).index(spec.View[name]) for name in ("ABSENT", "OTHERS", "MINE")
)


class Unlinked(HerdError):
    """The spec has an action or a field that the implementation's side knows nothing of."""


class Differs(AssertionError):
    """
    Spec and implementation are in different states; the message tells the story.

    `lockstep` is what came there, if it was a `Lockstep`.
    """

    lockstep: Lockstep | None = None


def act(world: SimulatedElection, action: str, arguments: Sequence[int]) -> None:
    """
    Do to a world what an action of the spec names, to the brokers with these indices.

    `Unlinked` if the world has no such method; `Impossible` or `NothingWaits` if it cannot.
    """
    method = getattr(world, action, None)
    if method is None:
        raise Unlinked(
            f"the spec's action {action!r} has no method in {type(world).__name__}:"
            " write one by that name, taking the brokers' indices"
        )
    method(*arguments)


class Observer:
    """Reads worlds as states of a ground spec: numbers in the order of its slots."""

    def __init__(self, ground: Ground) -> None:
        size = ground.sizes["Broker"]
        keys: list[SlotKey] = [(name, ()) for name in OF_THE_WORLD]
        keys += [(name, (k,)) for k in range(size) for name in OF_A_BROKER]
        if set(keys) != set(ground.slots):
            odd = ", ".join(sorted({name for name, _ in set(keys) ^ set(ground.slots)}))
            raise Unlinked(f"only the spec, or only its observer, has: {odd}")
        self._ordered = itemgetter(*(keys.index(key) for key in ground.slots))

    def __call__(self, world: SimulatedElection, faults: int = 0) -> tuple[int, ...]:
        """The world's state; the count of faults is no part of the world, and is given."""
        nodes, sessions, _ = world.zookeeper.snapshot()
        flat = [*read_world(world, nodes), faults]
        for broker in world.brokers:
            flat += read_broker(broker, sessions[broker.session], world)
        ordered: tuple[int, ...] = self._ordered(flat)
        return ordered


def read_world(world: SimulatedElection, nodes: Nodes) -> list[int]:
    """The fields `OF_THE_WORLD`, as numbers; but for the count of faults."""
    numbers = {broker.name: k for k, broker in enumerate(world.brokers, start=1)}
    epoch, leader = nodes[world.paths.epoch], nodes.get(world.paths.leader)
    elected = numbers[epoch.data.decode()] if epoch.data else 0
    stale = int(world.stale_write_accepted)
    if leader is None:
        return [0, 0, epoch.version, elected, stale]
    holder = numbers[read_leader(leader.data)[0]]
    orphan = int(leader.owner != world.brokers[holder - 1].session)
    return [holder, orphan, epoch.version, elected, stale]


def read_broker(broker: Broker, session: Session, world: SimulatedElection) -> list[int]:
    """The fields `OF_A_BROKER`, as numbers."""
    core, leader, view = broker.shell.core, world.paths.leader, session.view
    flat: list[int] = [session.alive, leader in session.data_watches]
    if view is None:
        flat += (0, VIEW_ABSENT, 0)
    else:
        node = view.get(leader)
        mine = VIEW_MINE if node and node.owner == broker.session else VIEW_OTHERS
        flat += (1, mine if node else VIEW_ABSENT, view[world.paths.epoch].version)
    answer, due = _waiting(broker)
    flat.append(broker.connected)
    flat += (NONE, _expected(core)) if answer is None else _decoded(broker, answer)
    flat += (LINKS[core.link], core.stands, core.leads, core.token, CALLS[core.call])
    flat += (due, broker.paused)
    return flat


def _waiting(broker: Broker) -> tuple[Answer | None, bool]:
    """The answer to the present call, if it waits; whether there is a reason to look again."""
    core, answer, changed = broker.shell.core, None, False
    looks = core.call is Call.LOOK
    for event in broker.shell.inbox:
        if isinstance(event, LeaderChanged):
            changed = True
        elif isinstance(event, Answered) and event.number == core.number:
            if _is_loss(event.answer):
                continue  # a real client's way to say that no answer will come
            answer = event.answer
            changed = changed and not looks  # the look was answered after that change
    if looks and answer is None:
        changed = False  # the answer is yet to come: it will be of after that change
    due = core.stands and core.link is Link.CONNECTED and (core.due or changed)
    return (None if core.call is Call.NONE else answer), due


def _is_loss(answer: Answer) -> bool:
    return isinstance(answer, Refusal) and answer.why in (Why.CONNECTION_LOSS, Why.SESSION_EXPIRED)


def _expected(core: Elector) -> int:
    """What the call under way carries: a creation, the version that must still hold."""
    return core.expected if core.call is Call.CREATE else 0


def _decoded(broker: Broker, answer: Answer) -> tuple[int, int]:
    """An answer in the words of the spec, with the epoch that it carries."""
    core = broker.shell.core
    match core.call, answer:
        case Call.LOOK, Found(stat=None):
            return ABSENT, 0
        case Call.LOOK, Found(stat=stat) if stat is not None:
            return (MINE if _is_mine(broker, stat) else OTHERS), 0
        case Call.RECALL, Data(data=data, stat=stat):
            return (MINE, read_leader(data)[1]) if _is_mine(broker, stat) else (OTHERS, 0)
        case Call.RECALL, Refusal(why=Why.NO_NODE):
            return ABSENT, 0
        case Call.READ, Data(stat=stat):
            return EPOCH, stat.version
        case Call.CREATE, Done():
            return CREATED, core.won(answer)
        case Call.DELETE, Done():
            return DELETED, 0
        case ((Call.CREATE | Call.DELETE), Refusal()):
            return REFUSED, 0
    raise Differs(f"{core.broker} got an answer to {core.call.value} that none expects: {answer}")


def _is_mine(broker: Broker, stat: Stat) -> bool:
    """Whether the broker takes a leader's node for its own; a flawed one goes by its name alone."""
    if stat.ephemeral_owner in broker.former:
        return isinstance(broker.shell.core, MineByData)
    return stat.ephemeral_owner == broker.session


def unlike(machine: Machine, wanted: Sequence[int], found: Sequence[int]) -> list[str]:
    """Where the world's state is not the spec's: a line for each such field; none if they agree."""
    lines = []
    for slot, ours, theirs in zip(machine.ground.slots.values(), wanted, found, strict=True):
        if ours != theirs:
            entry = f"{slot.field}[broker{slot.index[0] + 1}]" if slot.index else slot.field
            a, b = (said(decode(slot.kind, n, machine.sorts)) for n in (ours, theirs))
            lines.append(f"       {entry}: {a} in the spec, {b} in the implementation")
    return lines


Choice = tuple[str, tuple[Any, ...]]
"""An action's name, and its arguments as the spec has them."""


class _Frozen:
    """
    A state that cannot be written: it tells quickly, without a copy, what is surely not possible.

    An action whose guard fails before its first write is not; any other may be.
    """

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError(f"{name} of a frozen state is read-only")

    @classmethod
    def of(cls, state: Spec) -> Self:
        """The same state, frozen."""
        frozen = object.__new__(cls)
        frozen.__dict__.update(
            (name, MappingProxyType(value) if isinstance(value, dict) else value)
            for name, value in vars(state).items()
        )
        return frozen

    def may(self, action: str, arguments: tuple[Any, ...]) -> bool:
        """Whether it is worth trying."""
        try:
            getattr(self, action)(*arguments)
        except Disabled:
            return False
        except TypeError:
            return True  # it got as far as a write (or is wrong, which trying it will show)
        return True


class Lockstep:
    """
    A spec in plain Python and a simulated world, taken through the same steps.

    `specification` may be a flawed one; `flaws` are those of the world that it describes.
    """

    def __init__(
        self, specification: Specification, size: int, *, flaws: frozenset[str] = frozenset(),
        observe: Observe = ignore_event,
    ) -> None:  # fmt: skip
        self.machine = Machine(Ground(specification, {"Broker": size}, BOUND, faults=0))
        self.flaws = flaws
        self.world = simulated_with(flaws, size, observe=observe)
        self.observer = Observer(self.machine.ground)
        self._freezer: type[_Frozen] = cast(
            type[_Frozen],
            new_class("Frozen", (_Frozen, specification.state), {"variant": True}),
        )
        self._frozen: _Frozen | None = None
        self.initial = self.machine.initial()
        self.state = self.initial
        self.steps: list[Step] = []
        self.difference = ""
        self._compare(self.observer(self.world))

    def possible(self, choices: Sequence[Choice], turn: int = 0) -> Choice | None:
        """The first of these choices, counted from `turn` on and around, that the spec allows."""
        frozen = self._frozen = self._frozen or self._freezer.of(self.state)
        with sizes_of_sorts(self.machine.sizes):
            for at in range(turn, turn + len(choices)):
                choice = choices[at % len(choices)]
                if frozen.may(*choice) and self.machine.take(self.state, *choice) is not None:
                    return choice
        return None

    def step(self, action: str, arguments: tuple[Any, ...]) -> None:
        """
        Take a step on both sides; `ValueError` if the spec does not allow it.

        `Differs` where the implementation cannot follow, or arrives elsewhere.
        """
        after = self.machine.take(self.state, action, arguments)
        if after is None:
            raise ValueError(f"{action}{arguments} is not possible in this state of the spec")
        self.state, self._frozen = after, None
        self.steps.append(Step(self.machine.spec.action(action), arguments, after))
        try:
            act(self.world, action, [broker.index for broker in arguments])
            found = self.observer(self.world)
        except (Impossible, NothingWaits, AssertionError) as error:
            raise self._differs(f"The implementation cannot: {error}") from error
        self._compare(found)

    def follow(self, steps: Sequence[Step]) -> None:
        """Take a story's steps on both sides."""
        for step in steps:
            self.step(step.action.name, step.arguments)

    def follow_where_possible(self, steps: Sequence[Step]) -> None:
        """Take those of a story's steps that the spec allows when their turn comes."""
        for step in steps:
            if self.possible([(step.action.name, step.arguments)]):
                self.step(step.action.name, step.arguments)

    def _compare(self, found: tuple[int, ...]) -> None:
        wanted = self.machine.numbers(self.state)
        if wanted != found:
            lines = unlike(self.machine, wanted, found)
            raise self._differs("There the implementation is elsewhere:", *lines)

    def _differs(self, *ends: str) -> Differs:
        said_so_far = f"{self.machine.spec.name}, step by step on spec and implementation:"
        self.difference = "\n".join([said_so_far, *told(self.steps, self.initial), *ends])
        found = Differs(self.difference)
        found.lockstep = self
        return found

    def shortened(self) -> Lockstep:
        """One that differs, too, after some of this one's steps, of which none can be spared."""
        shortest, at = self, len(self.steps) - 1
        while at >= 0:
            steps = [*shortest.steps[:at], *shortest.steps[at + 1 :]]
            tried = Lockstep(self.machine.spec, self.machine.sizes["Broker"], flaws=self.flaws)
            try:
                tried.follow_where_possible(steps)
            except Differs:
                shortest, at = tried, len(tried.steps)
            at -= 1
        return shortest
