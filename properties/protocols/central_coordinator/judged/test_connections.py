"""
Connections that go by the same number, since two processes of a consumer have drawn it.

The oracle is the same run, whose processes have drawn others.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from msgspec.structs import replace

from herdproof.conformance.traces.line import START
from herdproof.protocols.central_coordinator.traces.connections import REMEMBERED, Connections
from herdproof.protocols.central_coordinator.traces.lines import CentralStep as Line
from herdproof.protocols.central_coordinator.tracing import CONSUMER
from properties.pipeline.pipeline_traces import MANY_STARTS, Trace, judged, of_group, run_of


def alike(lines: Trace) -> Trace:
    """The same run, where each process numbers its connections from the same number on."""
    processes = Counter[str]()
    of: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    numbers: dict[tuple[str, int], int] = {}
    for line in lines:
        if line.role == CONSUMER and line.action == START:
            processes[line.node] += 1
        elif line.action == "register":
            own = of[line.node, processes[line.node]]
            own.append(line.connection)
            numbers[line.consumer, line.connection] = 4096 * len(own) + 1
    return [
        replace(x, connection=numbers.get((x.consumer, x.connection), x.connection)) for x in lines
    ]


def test_numbers_that_are_drawn_twice_change_no_row() -> None:
    """Whoever draws them: a consumer's next process, or another one by its name meanwhile."""
    lines = run_of(9, MANY_STARTS)
    same = alike(lines)
    drawn = Counter((x.consumer, x.connection) for x in same if x.action == "register")
    assert sum(many > 1 for many in drawn.values()) > 3

    rows, wanted = (judged(of_group(some), replay=True) for some in (same, lines))

    for table, own in rows.items():
        assert sorted(own, key=repr) == sorted(wanted[table], key=repr)
    assert {row["verdict"] for row in rows["verdicts"]} == {"holds", "not observable"}


def line(role: str, node: str, action: str, member: str = "") -> Line:
    """A line about a connection of c1."""
    return replace(
        run_of(0)[0], role=role, node=node, action=action, member=member, consumer="c1",
        connection=4097,
    )  # fmt: skip


def numbers(*lines: Line) -> list[int]:
    """Which of the connections each line is about."""
    told = Connections()
    names = [told.apart(x).connection for x in lines]
    return [[*dict.fromkeys(names)].index(name) for name in names]


def test_a_registration_is_of_who_registered_last() -> None:
    """A coordinator may speak of the former one after the next one has registered."""
    register, closed = line(CONSUMER, "c1", "register"), line("coordinator", "b", "handle_closed")
    first, second = (line("coordinator", "b", "handle_register", f"1-{k}") for k in (1, 2))

    late = replace(closed, member="1-1")
    assert numbers(register, first, register, late, second, late) == [0, 0, 1, 0, 1, 0]
    assert numbers(register, register, first, second) == [0, 1, 1, 2]
    assert numbers(first, register, second, register) == [0, 0, 1, 1]


def test_two_nodes_may_consume_by_one_name_at_a_time() -> None:
    """Each goes on with its own connection."""
    one, other = (line(CONSUMER, node, "register") for node in ("c1", "c5"))
    pings = [line(CONSUMER, node, "handle_ping") for node in ("c1", "c5", "c1")]

    assert numbers(one, other, *pings) == [0, 1, 0, 1, 0]


def test_what_was_long_ago_is_forgotten() -> None:
    """A run may go on for months."""
    told = Connections()
    register = line(CONSUMER, "c1", "register")
    for number in range(REMEMBERED + 1):
        told.apart(replace(register, connection=number))

    assert told.apart(replace(register, connection=0)).connection == 0
    assert told.apart(replace(register, connection=2)).connection != 2
