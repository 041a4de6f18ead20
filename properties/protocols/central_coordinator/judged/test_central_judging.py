"""
Groups of the central coordinator, judged by the contract's own properties.

Clean runs break none, and leave none open that has happened; plants are found whatever else is
missing; and whatever is deleted from a clean run, nothing is ever violated.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from msgspec.structs import replace

from herdproof.conformance.traces.line import START
from herdproof.conformance.traces.ordering import ordered
from herdproof.pipeline.judging.changes import Changes
from herdproof.pipeline.judging.gaps import Gap, last_lines
from herdproof.protocols.central_coordinator.judged.judge import (
    CentralJudge,
    Judged,
    judge,
    judge_ordered,
    lines_of,
)
from herdproof.protocols.central_coordinator.judged.partners import with_untold
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT
from herdproof.protocols.central_coordinator.traces.lines import CentralStep, Messages, drawn_twice
from herdspec.check.observation.observed import Ruling
from herdspec.protocols.central_coordinator.properties import OF_ITS_OWN
from herdspec.protocols.contract.properties import PROMISES
from properties.pipeline.judging.pipeline_plants import PLANTS
from properties.pipeline.pipeline_traces import MANY_STARTS, Trace, deleted, run_of, trace
from properties.protocols.central_coordinator.mutated.central_mutants import (
    LOST_MEMBERS,
    PAUSES,
    SESSIONS_END,
)

NAMES = {p.name for p in (*PROMISES, *OF_ITS_OWN)}


def groups(lines: Trace) -> list[str]:
    """The groups of a run."""
    return sorted({line.group for line in lines} - {""})


def broken(found: Judged) -> set[str]:
    """The promises that were violated; each judgement must say the same."""
    ruled = {name for name, j in found.rulings.items() if j.ruling is Ruling.VIOLATED}
    assert ruled == {*found.violations}
    return ruled


# ── What is clean ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seeds", [range(k, k + 15) for k in range(0, 60, 15)], ids=str)
def test_in_clean_runs_everything_holds(seeds: range) -> None:
    """Faults and all: of each group, each promise is seen to hold."""
    for seed in seeds:
        for group in groups(run_of(seed)):
            found = judge(run_of(seed), group)
            assert broken(found) == set(), (seed, group, found.violations)
            assert {j.ruling for j in found.rulings.values()} == {Ruling.HOLDS}, (seed, group)
            assert found.rulings.keys() >= NAMES


@pytest.mark.parametrize("world", [LOST_MEMBERS, SESSIONS_END, PAUSES])
def test_in_harder_worlds_nothing_is_violated(world: Config) -> None:
    """Members that are lost, sessions that end, pauses."""
    for seed in range(3):
        for group in groups(run_of(seed, world)):
            assert broken(judge(run_of(seed, world), group)) == set(), (seed, group)


def test_the_order_of_the_input_does_not_matter() -> None:
    """Files come in any order."""
    lines = run_of(2)
    mixed = Random(1).sample(lines, len(lines))
    for group in groups(lines):
        assert judge(mixed, group).rulings == judge(lines, group).rulings


# ── What is planted ─────────────────────────────────────────────────────────────────────────

PLANTED = {plant.__name__: promise for promise, plants in PLANTS.items() for plant in plants}
OF_PLANTS = {plant.__name__: plant for many in PLANTS.values() for plant in many}


def planted(name: str) -> tuple[int, Trace]:
    """The first run in which something can be planted."""
    for seed in range(16):
        found = OF_PLANTS[name](trace(seed))
        if found is not None:
            return seed, found
    raise AssertionError(f"no run for {name}")


@pytest.mark.parametrize("name", sorted(PLANTED.keys() - {"a_ping_that_nobody_tells_of"}))
def test_what_is_planted_is_found_where_other_lines_are_missing(name: str) -> None:
    """
    Those of other groups; and those of this one after the violation, if no tail was cut.

    But for a ping that nobody tells of: it may have been told in one of the lines that are missing.
    """
    seed, lines = planted(name)
    known = {line.place for line in lines}
    others = [line for line in run_of(seed) if line.group not in ("", "g1")]
    assert not known & {line.place for line in others}
    whole = judge([*lines, *Random(seed).sample(others, len(others) // 2)], "g1")
    assert PLANTED[name] in broken(whole)

    line, _ = whole.violations[PLANTED[name]]
    cut = [x for x in lines if x.time_ns <= line.time_ns or x.group not in ("", "g1")]

    assert PLANTED[name] in broken(judge(cut, "g1", complete=True))


def test_who_fetches_no_more_has_its_partitions_until_it_has_answered_the_stop() -> None:
    """Its application winds up: who does not wait for that is found, though the lease is over."""
    lines = [line for line in run_of(1) if line.group in ("", "g1")]
    own = ordered(lines, Messages()).lines
    at = next(k for k, x in enumerate(own) if x.action == "handle_stop" and x.partitions)
    stop, had = own[at], {place[:2] for place in own[at].partitions}
    begins = next(
        k for k, x in enumerate(own)
        if k > at and x.action == "handle_start" and x.node != stop.node
        and had & {place[:2] for place in x.partitions}
    )  # fmt: skip
    told = replace(stop, action="renew_lease", partitions=(), until_ns=stop.time_ns)
    late = replace(stop, time_ns=own[begins].time_ns + 1, until_ns=own[begins].time_ns)
    winding = [*own[:at], told, *own[at + 1 : begins + 1], late]

    assert broken(judge_ordered(own[: begins + 1], [], set())) == set()
    assert "exclusive" in broken(judge_ordered(winding, [], set()))


# ── Lines that are missing ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["line", "lines", "one in a hundred", "tail", "file", "piece"])
def test_whatever_is_deleted_from_a_clean_run_nothing_is_violated(kind: str) -> None:
    """Single lines, many, tails, whole files, pieces of one process."""
    chance = Random(kind)
    for seed in range(30):
        left = deleted(run_of(seed), kind, chance)
        for group in groups(left):
            found = judge(left, group)
            assert broken(found) == set(), (kind, seed, group, found.violations)


def test_what_is_done_comes_after_what_asks_for_it_though_nobody_tells_of_either() -> None:
    """Of a Ping only the answer is told: what it says was not so before the coordinator asked."""
    lines = run_of(107, PAUSES)
    answers = [x for x in lines if x.action == "handle_ping_response" and x.partitions]
    for answer in answers:
        about = [x for x in lines[: lines.index(answer)] if x.connection == answer.connection]
        asked = [max(k for k, x in enumerate(about) if x.action == action)
                 for action in ("send_ping", "handle_ping")]  # fmt: skip
        left = [x for x in lines if x not in [about[k] for k in asked]]
        assert broken(judge(left, answer.group)) == set(), answer
    assert len(answers) > 20


GONE = {
    "a commit of what came after a resolved start was stored": (464, DEFAULT, {("c2", 45)}),
    "who had told the most is not heard when something was missed": (
        475, PAUSES, {("broker1", 29), ("broker1", 283), ("c4", 19)}
    ),
}  # fmt: skip
"""Single lines, as nodes number them, whose absence was once taken for a violation."""


@pytest.mark.parametrize("name", GONE)
def test_that_these_lines_are_missing_violates_nothing(name: str) -> None:
    """Each was found by many random deletions."""
    seed, world, gone = GONE[name]
    lines = run_of(seed, world)
    left = [x for x in lines if (x.node, x.sequence) not in gone]
    assert len(lines) - len(left) == len(gone)
    assert broken(judge(left, "g1")) == set()


def of_namesakes() -> tuple[Trace, list[CentralStep]]:
    """A run in which two processes of c3 have drawn one number; all lines about it."""
    lines = run_of(131)
    ((consumer, number),) = drawn_twice(lines)
    assert consumer == "c3"
    return lines, [x for x in lines if (x.consumer, x.connection) == (consumer, number)]


def test_two_processes_that_have_drawn_one_number_are_told_apart_where_nothing_is_missing() -> None:
    """Each by its Register: all that holds, holds."""
    lines, _ = of_namesakes()

    assert {j.ruling for j in judge(lines, "g2").rulings.values()} == {Ruling.HOLDS}


def test_a_register_of_a_number_that_was_drawn_twice_may_be_missing() -> None:
    """What c3 consumes is unknown then, by whichever process; of others it is decided."""
    lines, about = of_namesakes()
    for register in (x for x in about if x.action == "register"):
        found = judge([x for x in lines if x is not register], "g2")

        assert broken(found) == set()
        assert found.rulings["who_consumes_owns"].ruling is Ruling.UNKNOWN
        assert "two processes have drawn" in str([gap.why for gap in gaps_without(lines, register)])
        assert found.rulings["committed_offsets_never_go_back"].ruling is Ruling.HOLDS


def gaps_without(lines: Trace, gone: CentralStep) -> Sequence[Gap]:
    """What is missing without a line."""
    own, gaps = lines_of([x for x in lines if x is not gone], "g2")
    return with_untold(own, gaps, last_lines(own)).gaps


@pytest.mark.parametrize("share", [0.02, 0.2, 0.6])
def test_whatever_is_gone_about_a_number_that_was_drawn_twice_nothing_is_violated(
    share: float,
) -> None:
    """Of either process, and of the coordinators' lines."""
    lines, about = of_namesakes()
    chance = Random(share)
    for _ in range(25):
        gone = {id(x) for x in about if chance.random() < share}
        found = judge([x for x in lines if id(x) not in gone], "g2")
        assert broken(found) == set()


BOTH = {
    "a coordinator's file, and a consumer's last lines": (
        68, PAUSES, ("coordinator", "broker1"), range(10_000), ("consumer", "c3"), -73
    ),
    "a consumer's file, and lines about a coordinator's restart": (
        79, DEFAULT, ("coordinator", "broker1"), range(88, 148), ("consumer", "c3"), 0
    ),
}  # fmt: skip
"""A run; whose lines are missing, and which of them; and whose are from which one on."""


@pytest.mark.parametrize("name", BOTH)
def test_how_far_somebody_is_that_neither_it_nor_its_coordinator_tells_violates_nothing(
    name: str,
) -> None:
    """It may have finished more than was heard of it: that stays unknown for good."""
    seed, world, one, which, other, since = BOTH[name]
    lines = run_of(seed, world)
    of = {who: [id(x) for x in lines if (x.role, x.node) == who] for who in (one, other)}
    gone = {x for k, x in enumerate(of[one]) if k in which} | {*of[other][since:]}

    assert broken(judge([x for x in lines if id(x) not in gone], "g1")) == set()


TURNS = (START, "coordinator_startup", "step_down")
"""Lines with which a coordinator's process begins, begins to coordinate, and ends that."""


def merged(lines: Trace, node: str, first: int, at: int) -> Trace:
    """A run of which two processes of a node are numbered as one: from one line of both on."""
    own = [x for x in lines if (x.role, x.node) == ("coordinator", node)]
    begins = [*(k for k, x in enumerate(own) if x.sequence == 1), len(own)]
    begin, end, after = begins[first : first + 3]
    gone = {id(x) for x in [*own[begin + at : end], *own[end : min(end + at, after)]]}
    return [x for x in lines if id(x) not in gone]


def torn(lines: Trace, kind: str, chance: Random) -> Trace:
    """A run of which lines about a coordinator's restart are missing."""
    own = [x for x in lines if x.role == "coordinator"]
    turn = chance.choice([x for x in own if x.action in TURNS])
    own = [x for x in own if x.node == turn.node]
    starts = sum(x.sequence == 1 for x in own)
    if kind == "merged" and starts > 1:
        return merged(lines, turn.node, chance.randrange(starts - 1), chance.randint(1, 40))
    at = own.index(turn)
    gone = {id(x) for x in own[max(0, at - chance.randint(0, 40)) : at + chance.randint(1, 40)]}
    return [x for x in lines if id(x) not in gone]


@pytest.mark.parametrize(
    ("seed", "world", "kind", "draw"),
    [
        (73, DEFAULT, "file+", 1), (106, PAUSES, "file+", 1), (135, DEFAULT, "file+", 0),
        (68, PAUSES, "file+", 1), (141, PAUSES, "file+", 0), (251, DEFAULT, "two", 1),
        (267, PAUSES, "two", 0), (426, DEFAULT, "file+", 0), (433, DEFAULT, "piece", 1),
    ],
)  # fmt: skip
def test_what_is_gone_twice_over_violates_nothing(
    seed: int, world: Config, kind: str, draw: int
) -> None:
    """
    Each was judged falsely once: a file and more of what is left, or a coordinator's turn and more.

    A line was put in before its connection began, or where one had ended in between; a lease that
    was over by the clock was not seen to be; nor how far only an untraced consumer had told it was.
    A process without its beginning was put behind the beginning of the next one.
    """
    chance, lines = Random(f"{seed} {kind} {draw}"), run_of(seed, world)
    if kind == "file+":
        left = deleted(lines, "file", chance)
        left = deleted(left, chance.choice(["piece", "lines", "tail"]), chance)
    else:
        left = torn(lines, "piece", chance)
        left = left if kind == "piece" else deleted(left, "lines", chance)

    assert [judge(left, group).violations for group in groups(left)] == [{}] * len(groups(left))


@pytest.mark.parametrize(
    ("seed", "node", "at"),
    [
        (2, "broker1", 7), (4, "broker2", 3), (4, "broker2", 13), (4, "broker2", 16),
        (5, "broker2", 3), (19, "broker1", 10), (22, "broker1", 16), (23, "broker2", 3),
        (28, "broker2", 16), (30, "broker1", 13), (30, "broker1", 27),
    ],
)  # fmt: skip
def test_a_coordinator_that_goes_on_with_the_numbers_of_its_former_process_is_another_one(
    seed: int, node: str, at: int
) -> None:
    """The end of one process's lines and the beginning of the next one's are missing: no number."""
    assert broken(judge(merged(run_of(seed), node, 0, at), "g1")) == set()


@pytest.mark.parametrize("kind", ["merged", "piece"])
def test_whatever_is_deleted_around_a_coordinators_restart_nothing_is_violated(kind: str) -> None:
    """Where it begins, begins to coordinate, or ends that; and where no number tells of it."""
    chance = Random(f"torn {kind}")
    for seed in range(40):
        left = torn(run_of(seed), kind, chance)
        for group in groups(left):
            found = judge(left, group)
            assert broken(found) == set(), (kind, seed, group, found.violations)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["line", "lines", "one in a hundred", "tail", "file", "piece"])
def test_many_deletions_violate_nothing(kind: str) -> None:
    """Ten times as many, of runs with harder faults too."""
    chance = Random(f"many {kind}")
    for seed in range(150):
        for world in (DEFAULT, PAUSES):
            left = deleted(run_of(seed, world), kind, chance)
            for group in groups(left):
                assert broken(judge(left, group)) == set(), (kind, seed, group)


def test_what_a_missing_line_could_have_told_is_unknown() -> None:
    """Of a consumer without a trace nobody knows what it consumes, and nothing else is in doubt."""
    lines = [x for x in run_of(0) if (x.role, x.node) != ("consumer", "c1")]
    found = judge(lines, "g1").rulings
    assert found["exclusive"].ruling is Ruling.UNKNOWN
    assert "consumes" in found["exclusive"].why
    for name in ("one_coordinator", "stored_as_taken", "owners_change_with_the_generation"):
        assert found[name].ruling is Ruling.HOLDS


def test_what_is_missing_is_named_where_it_is_bridged() -> None:
    """Two heartbeats of a consumer: what is known before and after them holds."""
    lines = run_of(0)
    pings = [x for x in lines if x.action == "handle_ping" and x.group == "g1"][5:7]
    found = judge([x for x in lines if x not in pings], "g1").rulings
    for name in (
        "exclusive", "who_consumes_owns", "nobody_is_past_the_unfinished",
        "a_resolved_start_is_stored_first", "members_follow_no_older_epoch",
    ):  # fmt: skip
        assert found[name].ruling is Ruling.HOLDS
        assert found[name].why == "2 lines are missing, of which others tell"
    assert found["complete"].why != ""


def test_who_was_dropped_is_not_remembered_for_being_heard_late() -> None:
    """Long runs have many members: a late line of one that has ended keeps nothing of it."""
    lines = ordered([x for x in run_of(3, MANY_STARTS) if x.group in ("", "g1")], Messages()).lines
    judging = CentralJudge()
    changes = Changes("run", "g1", judging.seen)
    judging.listen(changes)
    for line in lines:
        changes.at(line)
        judging.take(line)
    members = judging.seen.domains["Member"]
    late = [
        line for line in lines
        if line.action == "handle_ping_response" and not line.partitions
        and (line.consumer, line.connection) not in members
    ]  # fmt: skip
    assert late

    for line in late:
        judging.take(line)

    table = vars(judging)["_table"]
    assert not {(line.consumer, line.connection) for line in late} & members.keys()
    assert vars(table)["_heard"].keys() <= members.keys()
    assert vars(table)["_answered"].keys() <= members.keys()
