"""
A simulated world of electors, put into a state of the election's spec.

Nodes, sessions, watches, inboxes, outboxes and cores are made so that the world is seen to be in
that state; what the core asks of ZooKeeper it says itself. Not for lagging servers: the changes
that such a server missed are no part of the spec's state.
"""

from __future__ import annotations

from herdproof.conformance.adapter import CannotLoad
from herdproof.protocols.election import simulated
from herdproof.protocols.election.elector import (
    AskZooKeeper,
    Call,
    Effect,
    Elector,
    LeaderChanged,
    OperationAnswered,
    leader_data,
)
from herdproof.protocols.election.simulated import SimulatedElection
from herdproof.zookeeper.operations import (
    Answer,
    Changed,
    Checked,
    Create,
    Created,
    Data,
    Deleted,
    Done,
    Found,
    Link,
    Refusal,
    Stat,
    Why,
)
from herdspec.language.surface import always
from herdspec.protocols.election import spec
from herdspec.protocols.election.spec import Broker

NOBODY = 0
"""No session has this number."""


@always
def no_server_lags(s: spec.Election) -> bool:
    """No server lags."""
    return all(not s.behind[b] for b in Broker)


def load(world: SimulatedElection, state: spec.Election) -> None:
    """Put a world that has just begun into a state; raises `CannotLoad`."""
    if any(state.behind.values()):
        raise CannotLoad("a server lags: what it missed is no part of the state")
    _create_node(world, state)
    service = world.zookeeper.snapshot()
    elected = world.brokers[state.elected.index].name if state.elected else ""
    epoch = service.nodes[world.paths.epoch]
    epoch = epoch._replace(data=elected.encode(), version=state.epoch)
    sessions = dict(service.sessions)
    for b, broker in zip(state.alive, world.brokers, strict=True):
        watches = frozenset({world.paths.leader} if state.watch[b] else ())
        sessions[broker.session] = sessions[broker.session]._replace(
            alive=state.alive[b], data_watches=watches, events=()
        )
        _load_broker(world, broker, state, b)
    nodes = {**service.nodes, world.paths.epoch: epoch}
    world.zookeeper.restore(service._replace(nodes=nodes, sessions=sessions))
    world.stale_write_accepted = state.stale_write_accepted


def _create_node(world: SimulatedElection, state: spec.Election) -> None:
    """The leader's node, of its holder's session, or of a former one."""
    if state.holder is None:
        if state.orphan:
            raise CannotLoad("no node stands that a former session could own")
        return
    broker = world.brokers[state.holder.index]
    owner = broker.session
    if state.orphan:
        owner = world.zookeeper.open()
        broker.former = (*broker.former, owner)
    data = leader_data(broker.name, state.epoch)
    world.zookeeper.perform(owner, Create(world.paths.leader, data, ephemeral=True))


def _load_broker(
    world: SimulatedElection, broker: simulated.SimulatedElector, state: spec.Election, b: Broker
) -> None:
    """One broker: its core, what it has asked for, and what waits for it."""
    shell, core = broker.shell, broker.shell.core
    broker.connected, broker.paused = state.connected[b], state.paused[b]
    shell.inbox.clear()
    shell.outbox.clear()
    answer = _answer(world, broker, state, b)
    wanted = Call(state.call[b].value)
    asks = [
        e
        for e in _asked(core, wanted, _expected(state, b), state.token[b])
        if type(e) is AskZooKeeper
    ]
    if core.call is not wanted:
        raise CannotLoad(f"this core never has a {wanted.value} under way")
    core.link = Link(state.link[b].value)
    core.stands, core.leads, core.token = state.stands[b], state.leads[b], state.token[b]
    core.due = state.due[b] and wanted is not Call.NONE
    if state.due[b] and not core.due:
        shell.inbox.append(LeaderChanged())
    if answer is None:
        shell.outbox.extend(asks)
    else:
        shell.inbox.append(OperationAnswered(core.number, answer))


def _asked(core: Elector, call: Call, expected: int, token: int) -> list[Effect]:
    """Have the core ask for this, as it does when an answer, or its owner, brings it to that."""
    core.link, core.call, core.leads, core.stands = Link.CONNECTED, Call.NONE, False, True
    match call:
        case Call.LOOK:
            core.stands = False
            return core.stand()
        case Call.RECALL:
            return core.handle_look(Found(_stat(owner=core.session)))
        case Call.READ:
            return core.handle_look(Found(None))
        case Call.CREATE:
            return core.handle_read(Data(b"", _stat(version=expected)))
        case Call.DELETE:
            core.leads, core.token = True, token
            return core.resign()
    return []


def _expected(state: spec.Election, b: Broker) -> int:
    """The version that a creation under way, or answered, has to follow."""
    if state.answer[b] == spec.Answer.CREATED:
        return max(state.number[b] - 1, 0)
    return state.number[b]


def _answer(
    world: SimulatedElection, broker: simulated.SimulatedElector, state: spec.Election, b: Broker
) -> Answer | None:
    """The answer that waits, if one does."""
    number = state.number[b]
    standing = world.zookeeper.snapshot().nodes.get(world.paths.leader)
    other = standing.owner if standing and standing.owner != broker.session else NOBODY
    match state.call[b], state.answer[b]:
        case _, spec.Answer.NONE:
            return None
        case spec.Call.LOOK, spec.Answer.ABSENT:
            return Found(None)
        case spec.Call.LOOK, spec.Answer.OTHERS:
            return Found(_stat(owner=other))
        case spec.Call.LOOK, spec.Answer.MINE:
            return Found(_stat(owner=broker.session))
        case spec.Call.RECALL, spec.Answer.ABSENT:
            return Refusal(Why.NO_NODE)
        case spec.Call.RECALL, spec.Answer.OTHERS:
            return Data(leader_data("another", state.epoch), _stat(owner=other))
        case spec.Call.RECALL, spec.Answer.MINE:
            return Data(leader_data(broker.name, number), _stat(owner=broker.session))
        case spec.Call.READ, spec.Answer.EPOCH:
            return Data(b"", _stat(version=number))
        case spec.Call.CREATE, spec.Answer.CREATED:
            return Done((Changed(_stat(version=number)), Created(world.paths.leader)))
        case spec.Call.CREATE, spec.Answer.REFUSED:
            return Refusal(Why.BAD_VERSION, 0)
        case spec.Call.DELETE, spec.Answer.DELETED:
            return Done((Checked(), Deleted()))
        case spec.Call.DELETE, spec.Answer.REFUSED:
            over = state.token[b] != state.epoch
            return Refusal(Why.BAD_VERSION, 0) if over else Refusal(Why.NO_NODE, 1)
    call, answer = state.call[b].value, state.answer[b].value
    raise CannotLoad(f"a call {call!r} is never answered by {answer!r}")


def _stat(*, owner: int = 0, version: int = 0) -> Stat:
    """A node's stat, of which only what electors look at has a meaning."""
    return Stat(
        czxid=1, mzxid=1, version=version, cversion=0, ephemeral_owner=owner, data_length=0,
        num_children=0,
    )  # fmt: skip
