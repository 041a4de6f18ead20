"""
Worlds of electors, read as states of the election's spec.

Read are the cores' fields, their inboxes, and ZooKeeper: never the spec's state. So what is read
can be compared with it.
"""

from __future__ import annotations

from operator import itemgetter

from herdproof.conformance.adapter import AdapterError
from herdproof.protocols.election.elector import (
    NOBODY_KNOWS,
    Call,
    Elector,
    LeaderChanged,
    OperationAnswered,
    read_leader,
)
from herdproof.protocols.election.held.flawed import MineByData
from herdproof.protocols.election.simulated import SimulatedElection, SimulatedElector
from herdproof.simulator.tree import Nodes
from herdproof.simulator.zookeeper import SessionState
from herdproof.zookeeper.operations import Answer, Data, Done, Found, Link, Refusal, Stat, Why
from herdspec.engine.ground import FAULTS, Ground, SlotKey
from herdspec.protocols.election import spec

OF_THE_WORLD = ("holder", "orphan", "epoch", "elected", "stale_write_accepted", FAULTS)
"""The fields that `Observer` reads of a world as a whole, in the order in which it does."""
OF_A_BROKER = (
    "alive", "watch", "behind", "view", "view_epoch", "connected", "answer", "number",
    "link", "stands", "leads", "token", "call", "due", "paused",
)  # fmt: skip
"""The fields that `Observer` reads of each broker, in the order in which it does."""

CALLS = {call: list(spec.Call).index(spec.Call(call.value)) for call in Call}
LINKS = {link: list(spec.Link).index(spec.Link(link.value)) for link in Link}
NONE, ABSENT, OTHERS, MINE, EPOCH, CREATED, DELETED, REFUSED = (
    list(spec.Answer).index(spec.Answer[name])
    for name in ("NONE", "ABSENT", "OTHERS", "MINE", "EPOCH", "CREATED", "DELETED", "REFUSED")
)
VIEW_ABSENT, VIEW_OTHERS, VIEW_MINE = (
    list(spec.View).index(spec.View[name]) for name in ("ABSENT", "OTHERS", "MINE")
)


class Observer:
    """Reads worlds as states of a ground spec: numbers in the order of its slots."""

    def __init__(self, ground: Ground) -> None:
        size = ground.sizes["Broker"]
        keys: list[SlotKey] = [(name, ()) for name in OF_THE_WORLD]
        keys += [(name, (k,)) for k in range(size) for name in OF_A_BROKER]
        if set(keys) != set(ground.slots):
            odd = ", ".join(sorted({name for name, _ in set(keys) ^ set(ground.slots)}))
            raise AdapterError(f"only the spec, or only its observer, has: {odd}")
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


def read_broker(
    broker: SimulatedElector, session: SessionState, world: SimulatedElection
) -> list[int]:
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


def _waiting(broker: SimulatedElector) -> tuple[Answer | None, bool]:
    """The answer to the present call, if it waits; whether there is a reason to look again."""
    core, answer, changed = broker.shell.core, None, False
    looks = core.call is Call.LOOK
    for event in broker.shell.inbox:
        if isinstance(event, LeaderChanged):
            changed = True
        elif isinstance(event, OperationAnswered) and event.number == core.number:
            if _is_loss(event.answer):
                continue  # a real client's way to say that no answer will come
            answer = event.answer
            changed = changed and not looks  # the look was answered after that change
    if looks and answer is None:
        changed = False  # the answer is yet to come: it will be of after that change
    due = core.stands and core.link is Link.CONNECTED and (core.due or changed)
    return (None if core.call is Call.NONE else answer), due


def _is_loss(answer: Answer) -> bool:
    return isinstance(answer, Refusal) and answer.why in NOBODY_KNOWS


def _expected(core: Elector) -> int:
    """The version that the call under way carries: that of a creation must still hold."""
    return core.expected if core.call is Call.CREATE else 0


def _decoded(broker: SimulatedElector, answer: Answer) -> tuple[int, int]:
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
    raise AssertionError(
        f"{core.broker} got an answer to {core.call.value} that none expects: {answer}"
    )


def _is_mine(broker: SimulatedElector, stat: Stat) -> bool:
    """Tells whether the broker takes a leader's node for its own; a flawed one goes by its name."""
    if stat.ephemeral_owner in broker.former:
        return isinstance(broker.shell.core, MineByData)
    return stat.ephemeral_owner == broker.session
