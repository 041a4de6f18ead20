"""What the lines of a consumer are to the spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from herdproof.link.central_lines import Placed
from herdproof.link.central_replay import GroupReplay, Make, State, let_go, refused
from herdspec.check.follow import Led, Way, differences

# ── Consumers ───────────────────────────────────────────────────────────────────────────


def register(replay: GroupReplay, place: Placed) -> Led | None:
    """A connection, if any coordinator ever handled its Register."""
    line = place.line
    handled = replay.view.handled(line)
    if handled is None:
        return None
    b = replay.broker_at[handled]
    states: list[Any] = replay.follower.states

    def is_gone(m: Any) -> bool:
        """Nobody counts on that element any more, and it has heard of nothing that is to come."""
        former = replay.connections.present(m)
        return former.handled and all(
            s.books[m] is None
            and (s.via[m] is None or former.released)
            and s.seen[m] <= s.election.token[b]
            for s in states
        )

    connection = replay.connections.begin(
        replay.view.connection(line), replay.view.process(line), is_gone
    )
    connection.until_ns = line.until_ns
    wanted = {replay.partitions[index] for index in replay.view.wanted(line)}
    m = connection.member
    return Led(lambda s: [[*let_go(s, m), ("register", (m, b, wanted))]])


def on_lost_connection(replay: GroupReplay, place: Placed) -> None:
    """From now on it fetches nothing; the spec hears of it when somebody relies on that."""
    connection = replay.connection(place.line)
    if connection is not None:
        connection.until_ns = place.line.until_ns
        connection.released = place.line.until_ns <= place.line.time_ns


def renew_lease(replay: GroupReplay, place: Placed) -> None:
    """A request that is no step (a ping's further copy) has moved the end of the lease."""
    connection = replay.connection(place.line)
    if connection is not None:
        connection.until_ns = place.line.until_ns


def commit(replay: GroupReplay, place: Placed) -> Led | None:
    """The user's commit: in the spec it waits until the answer before it was handled."""
    connection = replay.connection(place.line)
    if connection is None:
        return None
    m, states = connection.member, replay.follower.states
    if connection.unsent or any(s.up[m] for s in states):
        connection.unsent.append(place.line)
        return None
    connection.commits += 1

    def ways(s: State) -> Iterable[Way]:
        if s.link[m]:
            yield [*replay.consumed(s, {}, m, place.line), ("commit", (m,))]
        yield []  # who fetches nothing commits nothing, in the spec

    return Led(ways)


def obey(replay: GroupReplay, place: Placed) -> Led | None:
    """A request is carried out and answered."""
    line, connection = place.line, replay.connection(place.line)
    if connection is None:
        return None
    m = connection.member
    connection.until_ns = line.until_ns
    heard, connection.epoch = connection.epoch, max(connection.epoch, line.epoch)
    if line.epoch < heard:
        return refused(f"it obeys epoch {line.epoch}, and has heard of epoch {heard}")
    if connection.unsent:
        connection.unsent.append(line)
        return None
    if line.action == "handle_start" and line.outcome:
        return None
    epoch = replay.view.epoch(line.epoch)

    def claims(s: State) -> Sequence[str]:
        b = s.via[m]
        if not s.link[m] or b is None or s.seat != b:
            return ()
        wanted: dict[str, Any] = {"the epoch": (s.seen[m], epoch)}
        if line.action == "handle_start":
            wanted["the generation"] = (s.at[m], replay.view.generation(line.generation))
            position, fetching = s.position, s.fetching
            fetched = {p: position[m, p] for p in replay.partitions if fetching[m, p]}
            wanted["what it fetches"] = (fetched, dict(replay.places(line)))
        return differences(wanted)

    def ways(s: State) -> Iterable[Way]:
        return [replay.answer(s, {}, m, line) if s.link[m] else []]

    return Led(ways, claims)


CONSUMERS: Mapping[str, Make] = {
    "register": register,
    "on_lost_connection": on_lost_connection,
    "renew_lease": renew_lease,
    "commit": commit,
    "handle_ping": obey,
    "handle_stop": obey,
    "handle_start": obey,
}
