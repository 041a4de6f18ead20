"""Traces of the group coordinator, replayed in the spec: what the code does, it allows."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from herdproof.conformance.traces.line import START, TraceLine
from herdproof.conformance.traces.replay import conform_lines
from herdproof.pipeline.campaign.runs import Asked
from herdproof.protocols.group_protocol.campaign import MIXES
from herdproof.protocols.group_protocol.held.flawed import FLAWS, TakesAnyCommit
from herdproof.protocols.group_protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    Error,
    JoinGroupRequest,
    JoinGroupResponse,
    LeavingMember,
)
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.simulated.traced import traced_groups
from herdproof.protocols.group_protocol.traces.tails import unaccounted
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdproof.protocols.implementation import auditors, simulators
from herdspec.check.conformance.conform import Outcome, Verdict
from properties.protocols.group_protocol.group_variants import map_of_variant
from properties.protocols.group_protocol.group_world import (
    GROUP,
    QUICK,
    CoordinatorAlone,
    TracedAlone,
    join_of,
    wants,
)
from properties.unrepeated import unrepeated

DIFFERS = {"generation_unstored": 0, "commit_by_generation": 68, "expels_who_waits": 0}
"""By mistake: a run whose trace the variant explains, and the verified spec does not."""
BLOCK = 10


def conform(lines: list[TraceLine], *, invariants: bool = False) -> Outcome:
    """The trace, replayed in the verified spec."""
    return conform_lines(lines, map_of(), invariants=invariants)


def of_flawed(name: str, seed: int) -> list[TraceLine]:
    """The trace of a coordinator with a mistake, and of clients that show it."""
    coordinator, client = FLAWS[name]
    return traced_groups(seed, coordinator=coordinator, client=client)


def check(seed: int, lines: list[TraceLine], *, invariants: bool = False) -> None:
    """The trace conforms."""
    outcome = conform(lines, invariants=invariants)
    why = (seed, str(outcome.mismatch)[:2000], outcome.reason)
    assert outcome.verdict is Verdict.CONFORMS, why


@pytest.mark.parametrize("first", range(0, 40, BLOCK))
def test_what_disturbed_coordinators_do_the_spec_allows(first: int) -> None:
    """Killed, paused, cut off, elected anew, in doubt: every line is a step of the spec."""
    for seed in range(first, first + BLOCK):
        check(seed, traced_groups(seed))


@pytest.mark.parametrize("mix", MIXES)
def test_where_other_things_go_wrong_as_well(mix: str) -> None:
    """More of it, nothing of it, brokers alone, members alone, more of both."""
    for seed in range(3):
        check(seed, traced_groups(seed, config=MIXES[mix]))


def test_what_is_promised_holds_in_every_state_of_a_replay() -> None:
    """That is: of the coordinator, whoever its clients are."""
    for seed in range(3):
        check(seed, traced_groups(seed), invariants=True)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(40, 1_040, 100))
def test_many_traces_conform(first: int) -> None:
    """A thousand runs."""
    for seed in range(first, first + 100):
        check(seed, traced_groups(seed))


@pytest.mark.parametrize("name", FLAWS)
def test_a_mistake_conforms_to_its_variant_alone(name: str) -> None:
    """What the flawed core does its variant allows, and the verified spec does not."""
    lines = of_flawed(name, DIFFERS[name])

    assert conform(lines).verdict is Verdict.DIFFERS
    outcome = conform_lines(lines, map_of_variant(name), invariants=False)
    assert outcome.verdict is Verdict.CONFORMS, str(outcome.mismatch)[:2000]
    check(DIFFERS[name], traced_groups(DIFFERS[name]))


def test_a_mistake_without_a_variant_differs() -> None:
    """Who was taken for dead overwrites offsets: Kafka does not allow that either."""
    assert conform(traced_groups(3, coordinator=TakesAnyCommit)).verdict is Verdict.DIFFERS


# ── A replay that would allow anything were none ────────────────────────────────────────────


def other_generation(line: TraceLine) -> None:
    """Another generation is told."""
    line.arguments["generation"] += 1


def other_offset(line: TraceLine) -> None:
    """Another offset is told."""
    topic, number, offset = line.arguments["offsets"][0]
    line.arguments["offsets"][0] = [topic, number, offset + 1]


def other_owner(line: TraceLine) -> None:
    """Somebody has one partition less."""
    del line.arguments["owners"][0]


def one_less(line: TraceLine) -> None:
    """Somebody does not belong to it."""
    del line.arguments["members"][-1]


def fine(line: TraceLine) -> None:
    """What was refused is told to be taken."""
    line.arguments["outcome"] = "NONE"


EDITED: dict[str, tuple[Callable[[TraceLine], None], str, str]] = {
    "a generation that is stored": (other_generation, "complete_join", ""),
    "a generation that is told": (other_generation, "answer_joins", ""),
    "a generation that is told once more": (other_generation, "handle_join_group", "told"),
    "a generation that is found": (other_generation, "found", ""),
    "the members of a generation": (one_less, "complete_join", ""),
    "an offset that is fetched": (other_offset, "handle_offset_fetch", ""),
    "an offset that is found": (other_offset, "found", ""),
    "an assignment that is told": (other_owner, "answer_syncs", ""),
    "an assignment that is found": (other_owner, "found", ""),
    "a heartbeat that is refused": (fine, "heartbeat", "REBALANCE_IN_PROGRESS"),
    "a heartbeat of nobody": (fine, "heartbeat", "UNKNOWN_MEMBER_ID"),
}

TELLS = {"found": "offsets", "handle_offset_fetch": "offsets"}
"""What a line that is to be edited must tell; it need not."""


@cache
def seeds_of(action: str, outcome: str) -> tuple[int, int]:
    """A run, and a line of it that tells this, and something; none that may be missing before."""
    for seed in range(40):
        lines = traced_groups(seed)
        for k, line in enumerate(lines):
            told = line.action, line.arguments.get("outcome", "")
            if told != (action, outcome) or unaccounted(lines, k):
                continue
            if TELLS.get(action, "") in {"", *line.arguments}:
                return seed, k
    raise AssertionError(f"no run tells {action} {outcome}")


@pytest.mark.parametrize("edited", EDITED)
def test_a_line_that_tells_otherwise_differs(edited: str) -> None:
    """Whatever a line tells is held against the spec."""
    change, action, outcome = EDITED[edited]
    seed, k = seeds_of(action, outcome)
    lines = unrepeated(traced_groups(seed))
    change(lines[k])

    assert conform(lines).verdict is Verdict.DIFFERS


def test_a_missing_line_is_unknown() -> None:
    """What is not there, and no other line tells, is named, and not taken for a pass."""
    lines = unrepeated(traced_groups(1))
    del lines[100]
    outcome = conform(lines)

    assert outcome.verdict is Verdict.UNKNOWN
    assert "missing" in outcome.reason


@cache
def traced(seed: int) -> list[TraceLine]:
    """The trace of a run in which brokers fail; no line tells another one again."""
    return unrepeated(traced_groups(seed, config=MIXES["failovers"]))


def without(seed: int, k: int) -> Outcome:
    """That trace without one line."""
    lines = traced(seed)
    return conform([*lines[:k], *lines[k + 1 :]])


@pytest.mark.parametrize("seed", range(10))
def test_no_trace_without_one_of_its_lines_differs(seed: int) -> None:
    """Ten of each, drawn by the seed: what a line would have told is unknown."""
    lines = traced(seed)
    for k in Random(seed).sample(range(len(lines)), 10):
        outcome = without(seed, k)
        gone = f"seed {seed}, without line {k + 1} ({lines[k].action}): {outcome.mismatch}"
        assert outcome.verdict is not Verdict.DIFFERS, gone[:2000]


def test_what_was_found_may_be_what_is_missing() -> None:
    """Of a load whose next line is not there nobody knows that nothing was found."""
    lines = traced(5)
    for k in [k for k, line in enumerate(lines) if line.action == "found"]:
        outcome = without(5, k)
        assert outcome.verdict is Verdict.UNKNOWN, str(outcome.mismatch)[:2000]
        assert f"of {lines[k].node}, line {lines[k].sequence}" in outcome.reason


def test_that_nothing_was_found_differs_where_lines_go_on() -> None:
    """The next number is there, and tells of something else: what was stored was gone."""
    lines = traced(5)
    k = next(k for k, line in enumerate(lines) if line.action == "found")
    node, number = lines[k].node, lines[k].sequence
    later = [
        replace(line, sequence=line.sequence - 1)
        if line.node == node and line.sequence > number else line
        for line in lines[k + 1 : next_start(lines, k)]
    ]  # fmt: skip

    assert conform([*lines[:k], *later]).verdict is Verdict.DIFFERS


def next_start(lines: list[TraceLine], after: int) -> int:
    """The place of the next process's first line, whichever broker's it is; or the end."""
    return next((k for k, x in enumerate(lines) if k > after and x.action == START), len(lines))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 11), process=st.integers(0, 2**16), cut=st.floats(0, 1))
@example(seed=5, process=0, cut=0.9)  # what the next coordinator finds, nobody has stored
@example(seed=0, process=2, cut=0.45)  # after the leader's SyncGroup, before what comes of it
def test_no_trace_whose_tail_is_cut_differs(seed: int, process: int, cut: float) -> None:
    """A process's last lines are missing, which no number shows: unknown at worst."""
    lines = traced(seed)
    lives: dict[tuple[str, int], list[int]] = {}
    begun: Counter[str] = Counter()
    for k, line in enumerate(lines):
        begun[line.node] += line.action == START
        lives.setdefault((line.node, begun[line.node]), []).append(k)
    own = lives[sorted(lives)[process % len(lives)]]
    gone = {*own[int(cut * len(own)) :]}
    outcome = conform([line for k, line in enumerate(lines) if k not in gone])

    assert outcome.verdict is not Verdict.DIFFERS, str(outcome.mismatch)[:2000]


def test_what_is_lost_differs_though_the_last_lines_may_be_missing() -> None:
    """Lines that nobody has do not make what was stored disappear."""
    lines = traced(5)
    (k, found), *_ = [
        (k, line) for k, line in enumerate(lines)
        if line.action == "found" and len(line.arguments.get("offsets", ())) > 1
    ]  # fmt: skip
    gone = [j for j, line in enumerate(lines[:k]) if line.node != found.node][-3:]
    found.arguments["offsets"].pop()
    outcome = conform([line for j, line in enumerate(lines) if j not in gone])

    assert outcome.verdict is Verdict.DIFFERS
    traced.cache_clear()


# ── A coordinator alone ─────────────────────────────────────────────────────────────────────


def test_what_it_does_alone_conforms() -> None:
    """Members of today, and one of a version that is given no member id first."""
    alone = TracedAlone().traced()
    (leader,) = alone.stable()
    alone.commit(leader, p0=7)
    old = alone.ask(join_of(version=3))
    leader = alone.joined(alone.join(leader.member_id))
    alone.sync(leader, {leader.member_id: (0,), alone.joined(old).member_id: (1,)})
    alone.sync(alone.joined(old))
    alone.commit(alone.joined(old), p1=3)
    alone.commit(leader, p1=5)

    assert alone.committed(0, 1) == [7, 3]
    assert alone.outcome().verdict is Verdict.CONFORMS, str(alone.outcome().mismatch)[:2000]


def test_a_member_that_says_otherwise_of_itself_begins_a_rebalance() -> None:
    """The spec knows no subscriptions that change: replays have a step for that."""
    alone = TracedAlone().traced()
    leader, follower = alone.stable(2)
    changed = alone.ask(join_of(follower.member_id, protocols=(wants("others"),)))
    alone.join(leader.member_id)

    assert alone.joined(changed).generation_id == follower.generation_id + 1
    assert alone.outcome().verdict is Verdict.CONFORMS, str(alone.outcome().mismatch)[:2000]


def test_a_group_that_was_there_before_is_taken_as_it_is_found() -> None:
    """A trace may begin anywhere: at a generation of fifty-odd, with members and offsets."""
    before = CoordinatorAlone().elected()
    for _ in range(50):
        (leader,) = before.stable()
        before.commit(leader, p0=7)
        before.leave(LeavingMember(leader.member_id))
    (leader,) = before.stable()
    alone = TracedAlone(store=before.store).traced(epoch=2)
    alone.commit(leader, p0=9)
    alone.joined(alone.join(leader.member_id))

    assert leader.generation_id > 50
    assert alone.committed(0) == [9]
    assert alone.outcome().verdict is Verdict.CONFORMS, str(alone.outcome().mismatch)[:2000]


@pytest.mark.parametrize(
    ("settings", "asked", "refused"),
    [
        (QUICK, join_of(protocols=(wants(name="other"),)), Error.INCONSISTENT_GROUP_PROTOCOL),
        (dataclasses.replace(QUICK, group_max_size=1), join_of(), Error.GROUP_MAX_SIZE_REACHED),
        (
            dataclasses.replace(QUICK, max_groups=1),
            join_of(group_id="another"),
            Error.POLICY_VIOLATION,
        ),
    ],
    ids=["other assignors", "too large", "too many groups"],
)
def test_a_refusal_that_is_not_modelled_is_passed_over(
    settings: GroupSettings, asked: JoinGroupRequest, refused: Error
) -> None:
    """The spec knows no reason for it; it changes nothing, and the group goes on."""
    alone = TracedAlone(settings).traced()
    (leader,) = alone.stable()

    assert alone.answer(asked, JoinGroupResponse).error is refused
    assert alone.heartbeat(leader) is Error.NONE
    assert alone.outcome().verdict is Verdict.CONFORMS, str(alone.outcome().mismatch)[:2000]


def test_what_the_spec_has_no_step_for_leaves_one_group_unknown() -> None:
    """From there on: another group's verdict stands, and so does a difference before it."""
    alone = TracedAlone().traced()
    (leader,) = alone.stable()
    alone.answered(alone.ask(join_of(group_id="another")), JoinGroupResponse)
    alone.leave(LeavingMember(member_id=leader.member_id, group_instance_id=None))
    alone.answer(DeleteGroupsRequest(version=2, groups=(GROUP,)), DeleteGroupsResponse)

    outcome = alone.outcome()

    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason == "delete_group (alone, line 17) is no step of the spec"
    found = {name: of.verdict for name, of in outcome.groups.items()}
    assert found == {GROUP: Verdict.UNKNOWN, "another": Verdict.CONFORMS}


def test_an_audit_does_not_know_either_what_comes_after_a_deletion() -> None:
    """Though the group lives again, which in the spec's eyes is another one."""
    alone = TracedAlone().traced()
    (leader,) = alone.stable()
    alone.commit(leader, p0=7)
    alone.leave(LeavingMember(member_id=leader.member_id, group_instance_id=None))
    alone.answer(DeleteGroupsRequest(version=2, groups=(GROUP,)), DeleteGroupsResponse)
    (leader,) = alone.stable()
    alone.commit(leader, p0=2)
    auditor = auditors()["group_protocol"]
    texts = alone.stream.getvalue().splitlines()

    replayed = auditor.replay(auditor.order([auditor.read(text, "alone") for text in texts]))

    assert replayed.verdict == "unknown"
    assert "delete_group (alone) is no step of the spec" in str(replayed.told)


def test_an_offset_of_nobodys_partition_is_taken() -> None:
    """It is anybody's, if nobody has ever been assigned it."""
    alone = TracedAlone().traced()
    (leader,) = alone.stable()

    assert alone.commit(leader, p5=7) == [Error.NONE]
    assert alone.outcome().verdict is Verdict.CONFORMS, str(alone.outcome().mismatch)[:2000]


def given_up(alone: TracedAlone) -> tuple[JoinGroupResponse, JoinGroupResponse]:
    """Two members, of which the first has given its partition up; nobody is assigned it."""
    leader, follower = alone.stable(2)
    caller = alone.join(leader.member_id)
    alone.join(follower.member_id)
    leader = alone.joined(caller)
    follower = dataclasses.replace(follower, generation_id=leader.generation_id)
    alone.sync(leader, {leader.member_id: (), follower.member_id: (1,)})
    return leader, follower


def test_who_gave_a_partition_up_commits_what_it_had() -> None:
    """
    As cooperative members do: real ones of librdkafka, before they are told of what is revoked.

    Another member may not; a failover in between changes nothing.
    """
    alone = TracedAlone().traced()
    leader, follower = given_up(alone)

    assert alone.commit(follower, p0=5) == [Error.ILLEGAL_GENERATION]
    assert alone.commit(leader, p0=5, p1=5) == [Error.NONE, Error.ILLEGAL_GENERATION]
    alone.resign()
    alone.elected(2)
    assert alone.commit(follower, p0=6) == [Error.ILLEGAL_GENERATION]
    assert alone.commit(leader, p0=6) == [Error.NONE]
    assert alone.outcome().verdict is Verdict.CONFORMS, str(alone.outcome().mismatch)[:2000]


def test_a_core_that_takes_it_from_another_member_differs() -> None:
    """It was not that one's last, and whose it was is there."""
    alone = TracedAlone(core=TakesAnyCommit).traced()
    _, follower = given_up(alone)

    assert alone.commit(follower, p0=5) == [Error.NONE]
    assert alone.outcome().verdict is Verdict.DIFFERS


# ── What commands make of it ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("flaw", "broken"), [("", False), ("generation_unstored", True)])
def test_a_campaign_replays_its_runs(flaw: str, broken: bool) -> None:
    """A run of the simulator, with edges of the spec; one of a mistake differs."""
    simulated = simulators()["group_protocol"]
    ran = simulated.run(Asked("group_protocol", 0, 3, "mixed", flaw))
    auditor = auditors()["group_protocol"]
    lines = auditor.order([auditor.read(text, "run") for text in ran.texts])
    found, edges, steps = simulated.replay(lines, ran)

    assert (found.verdict == "differs") == broken
    assert edges
    assert steps >= len(edges)
