"""What the lines of a coordinator are to the spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from herdproof.link.central_lines import Placed
from herdproof.link.central_replay import (
    GroupReplay,
    Make,
    State,
    broken,
    holds,
    let_go,
    still_to_store,
)
from herdspec.check.follow import Call, Led, Way, differences
from herdspec.protocols.central_coordinator import Asked, Kind, Phase, Write

# ── Coordinators ────────────────────────────────────────────────────────────────────────


def start(replay: GroupReplay, place: Placed) -> Led | None:
    """A process of a broker: another one than before, if there was one."""
    b = replay.broker(place.line)
    if place.line.node not in replay.view.started:
        replay.view.started.add(place.line.node)
        return None
    return Led([[("restart", (b,))]])


def coordinator_startup(replay: GroupReplay, place: Placed) -> Led:
    """A broker coordinates: in an epoch of its own that goes on, or in a new one."""
    b, epoch = replay.broker(place.line), replay.view.epoch(place.line.epoch)

    def ways(s: State) -> Iterable[Way]:
        if s.election.epoch > epoch:
            # It hears so late of its election that another one has won since, and it will hear of
            # that next. In the spec it takes nothing up; whatever else it did would differ.
            yield []
        elif s.seat == b and s.election.won[b] == epoch:
            yield [("coordinator_startup", (b,))]
        else:
            before: list[Call] = [] if s.seat is None else [("lose_session", (s.seat,))]
            for missed in range(s.election.epoch + 1, epoch):  # whose winner will hear of it later
                other = replay.broker_at[replay.view.winner(missed)]
                before += [("elect", (other,)), ("lose_session", (other,))]
            yield [*before, ("elect", (b,)), ("coordinator_startup", (b,))]

    def claims(s: State) -> Sequence[str]:
        over = s.election.epoch > epoch
        return () if over else differences({"the epoch": (s.election.token[b], epoch)})

    return Led(ways, claims)


def step_down(replay: GroupReplay, place: Placed) -> Led:
    """It does no more: it cannot be sure of its session, or that is gone."""
    b = replay.broker(place.line)

    def ways(s: State) -> Iterable[Way]:
        if not s.election.leads[b]:
            yield []
        elif s.seat == b:
            yield [("doubt", (b,))]
        else:
            yield [("step_down", (b,))]

    return Led(ways, lambda s: differences({"whether it leads": (s.election.leads[b], False)}))


def handle_register(replay: GroupReplay, place: Placed) -> Led | None:
    """A Register was accepted, or refused."""
    connection = replay.connection(place.line)
    if connection is None:
        return None
    connection.handled = True
    m, b = connection.member, replay.broker(place.line)
    accepted = place.line.outcome == "accepted"
    wanted = b if accepted else None
    if accepted:
        replay.connections.name(place.line.member, connection)

    def ways(s: State) -> Iterable[Way]:
        yield [("handle_register", (m, b))] if accepted or s.link[m] else []

    return Led(ways, lambda s: differences({"whose member it is": (s.books[m], wanted)}))


def handle_closed(replay: GroupReplay, place: Placed) -> Led | None:
    """A member's connection is closed, or its coordinator has waited too long."""
    connection = replay.connection(place.line)
    if connection is None:
        return None
    m, b = connection.member, replay.broker(place.line)

    def ways(s: State) -> Iterable[Way]:
        if place.line.action == "fail" and s.asked[m] != Asked.NONE:
            yield [("fail", (m, b))]
        yield [*broken(s, connection), ("handle_closed", (m, b))]

    return Led(ways, lambda s: differences({"whose member it is": (s.books[m], None)}))


def topic_change_listener(replay: GroupReplay, place: Placed) -> Led:
    """A topic is known, or has more partitions; whoever tells it first makes them appear."""
    b = replay.broker(place.line)
    found = [p for p, _ in replay.places(place.line)]

    def noticed(s: State) -> Way:
        calls: list[Call] = []
        for p in found:
            calls += [] if s.exists[p] else [("appear", (p,))]
            if s.election.leads[b] and not s.knows[b, p]:
                calls.append(("topic_change_listener", (b, p)))
        return calls

    return Led(lambda s: [noticed(s)])


# ── Rebalances ──────────────────────────────────────────────────────────────────────────


def begin_rebalance(replay: GroupReplay, place: Placed) -> Led:
    """A group is taken from its queue."""
    b = replay.broker(place.line)
    wanted = Phase.STOPPING if place.line.outcome == "necessary" else Phase.IDLE

    def ways(s: State) -> Iterable[Way]:
        before: list[Call] = []
        if s.phase[b] == Phase.FAILED:
            before = [("requeue", (b,))]
        yield [*before, ("begin_rebalance", (b, False))]
        yield [*before, ("begin_rebalance", (b, True))]

    return Led(ways, lambda s: differences({"the phase": (s.phase[b], wanted)}))


def send(replay: GroupReplay, place: Placed, action: str, kind: Kind) -> Led | None:
    """A request to a member; of what a deposed coordinator tells nothing is claimed."""
    connection = replay.connection(place.line)
    if connection is None:
        return None
    m, b = connection.member, replay.broker(place.line)
    if kind is Kind.PING:  # its generation is of no meaning to anybody
        return Led([[(action, (m, b))]])
    generation = replay.view.generation(place.line.generation)

    def claims(s: State) -> Sequence[str]:
        if s.seat != b:
            return ()
        message = s.down[m][-1]
        wanted: dict[str, Any] = {"the generation": (message.generation, generation)}
        if kind is Kind.START:
            given, says = dict(replay.places(place.line)), s.given
            mine = {p for p in replay.partitions if says[m, p]}
            wanted["what is given"] = (mine, set(given))
            for p in mine & given.keys():
                wanted[f"where {replay.view.shown(p)} begins"] = (s.begin[m, p], given[p])
        return differences(wanted)

    return Led([[(action, (m, b))]], claims)


def response(replay: GroupReplay, place: Placed, action: str, handle: str) -> Led | None:
    """A member's answer; one that a broken connection still hands out is lost in the spec."""
    connection = replay.connection(place.line)
    if connection is None:
        return None
    m, b = connection.member, replay.broker(place.line)

    def ways(s: State) -> Iterable[Way]:
        if not s.link[m]:
            return [[]]
        if place.line.outcome and not s.up[m]:  # refused: the spec knows no such answer
            return [[(handle, (m,)), (action, (m, b))]]
        return [[(action, (m, b))]]

    return Led(ways)


def handle_commit(replay: GroupReplay, place: Placed) -> Led | None:
    """A commit; if the spec has not sent it yet, it does so now, and what followed it."""
    connection = replay.connection(place.line)
    if connection is None:
        return None
    m, b = connection.member, replay.broker(place.line)
    late = None
    if connection.commits:
        connection.commits -= 1
    elif connection.unsent:
        late = connection.unsent.popleft()
    then = []
    while connection.unsent and connection.unsent[0].action != "commit":
        then.append(connection.unsent.popleft())

    def ways(s: State) -> Iterable[Way]:
        at: dict[Any, int] = {}
        sent = [] if late is None else [*replay.consumed(s, at, m, late), ("commit", (m,))]
        answers = [call for line in then for call in replay.answer(s, at, m, line)]
        if late is None and s.up[m] and s.up[m][0].kind == Kind.COMMIT:
            yield [("handle_commit", (m, b)), *answers]
        elif s.link[m]:
            yield [*sent, ("handle_commit", (m, b)), *answers]
        yield answers if s.link[m] else []  # who fetches nothing commits nothing, in the spec

    return Led(ways)


# ── Writes ──────────────────────────────────────────────────────────────────────────────────


def flush_offsets(replay: GroupReplay, place: Placed) -> Led:
    """A write of offsets is sent, perhaps again; or it was, where it was put together."""
    b = replay.broker(place.line)
    written = replay.written[b, place.line.number] = replay.flushes[b].popleft()

    def ways(s: State) -> Iterable[Way]:
        if s.write[b] is Write.NONE and still_to_store(s, written):
            if holds(s, b, written):
                yield [("flush_offsets", (b, True))]
            yield [("flush_offsets", (b, False))]
        else:
            yield []
        if s.seat != b:  # of what is deposed, and will be refused, nothing is claimed
            yield []

    def claims(s: State) -> Sequence[str]:
        if s.seat != b:
            return ()
        return [
            f"{replay.view.shown(p)} is sent at {s.sent[b, p]}, the trace wrote {offset}"
            for p, offset in still_to_store(s, written).items()
            if s.sent[b, p] < offset
        ]

    return Led(ways, claims)


def write_owners(replay: GroupReplay, place: Placed) -> Led:
    """A write of owners is sent, by when the lease of whoever is in no books must be over."""
    line, b = place.line, replay.broker(place.line)
    generation = replay.view.generation(line.generation)
    owners = {
        replay.partitions[replay.view.partitions[topic, number]]: replay.connections.registered(who)
        for topic, number, who in line.owners
        if (topic, number) in replay.view.partitions
    }
    plan = {p: owners.get(p) or replay.members[0] for p in replay.partitions}
    replay.written[b, line.number] = None

    def ways(s: State) -> Iterable[Way]:
        gone = [call for m in _gone(replay, s, b, line.time_ns) for call in let_go(s, m)]
        yield [*gone, ("write_owners", (b, plan))]
        if s.seat != b:  # of what is deposed, and will be refused, nothing is claimed
            yield []

    def claims(s: State) -> Sequence[str]:
        if s.seat != b:
            return ()
        named = {p: m for p, m in replay.named(s, b).items() if m is not None}
        return differences(
            {"the generation": (s.generation + 1, generation), "the owners": (named, owners)}
        )

    return Led(ways, claims)


def answered(replay: GroupReplay, place: Placed) -> Led | None:
    """A write was done or refused, by now at the latest; or nobody knows."""
    b, outcome = replay.broker(place.line), place.line.outcome
    if (b, place.line.number) not in replay.written:
        return None
    written = replay.written.pop((b, place.line.number))

    def ways(s: State) -> Iterable[Way]:
        write, before = s.write[b], replay.serving(b, s)
        if write is Write.NONE or (write is Write.OFFSETS and not holds(s, b, written)):
            # It is over in the spec, or was never sent there; then it must not have been done.
            stored = written is not None and not still_to_store(s, written)
            return [[]] if stored or outcome != "done" else [[("answered", (b,))]]
        if outcome == "refused" and before:
            is_stale = s.election.token[b] != s.election.epoch
            before = [("refuse_stale" if is_stale else "refuse", (b,))]
        if outcome == "unknown":
            lost = ("lose_answer", (b,))
            return [[lost], [*before, lost]] if before else [[lost]]
        return [[*before, ("answered", (b,))]]

    return Led(ways, every=outcome == "unknown")


def _gone(replay: GroupReplay, s: State, b: Any, time_ns: int) -> list[Any]:
    """Owners that are in no book of this coordinator, and whose lease is over by then."""
    owner, orphan = s.owner, s.orphan
    return [
        m
        for m in {owner[p] for p in replay.partitions if not orphan[p]}
        if m is not None
        and s.books[m] != b
        and not s.lease_is_over(m)
        and replay.connections.is_over(m, time_ns)
    ]


def finish_rebalance(replay: GroupReplay, place: Placed) -> Led:
    """Everybody has started."""
    return Led([[("finish_rebalance", (replay.broker(place.line),))]])


def fail_rebalance(replay: GroupReplay, place: Placed) -> Led:
    """A rebalance has failed, and will be tried again."""
    b = replay.broker(place.line)

    def ways(s: State) -> Iterable[Way]:
        under_way = s.phase[b] in (Phase.STOPPING, Phase.STARTING)
        yield [("fail_rebalance", (b,))] if under_way else []

    return Led(ways)


COORDINATORS: Mapping[str, Make] = {
    "start": start,
    "coordinator_startup": coordinator_startup,
    "step_down": step_down,
    "handle_register": handle_register,
    "handle_closed": handle_closed,
    "fail": handle_closed,
    "topic_change_listener": topic_change_listener,
    "begin_rebalance": begin_rebalance,
    "send_ping": partial(send, action="send_ping", kind=Kind.PING),
    "send_stop": partial(send, action="send_stop", kind=Kind.STOP),
    "send_start": partial(send, action="send_start", kind=Kind.START),
    "handle_ping_response": partial(response, action="handle_ping_response", handle="handle_ping"),
    "handle_stop_response": partial(response, action="handle_stop_response", handle="handle_stop"),
    "handle_start_response": partial(
        response, action="handle_start_response", handle="handle_start"
    ),
    "handle_commit": handle_commit,
    "flush_offsets": flush_offsets,
    "write_owners": write_owners,
    "answered": answered,
    "finish_rebalance": finish_rebalance,
    "fail_rebalance": fail_rebalance,
}
