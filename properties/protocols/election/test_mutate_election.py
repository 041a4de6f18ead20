"""
The election's mutation score: what survives, and that the reasons for it are true.

`election/accepted_mutants.py` says of most survivors which promise is missing. Those promises stand
here. They are no part of the election; each holds of it, and would kill what it is said to kill.
"""

from __future__ import annotations

from functools import cache, partial

import pytest

from herdspec import recoverable, sometimes, step
from herdspec.check.exploration.explore import explore
from herdspec.check.mutation.mutants import Mutant, mutants
from herdspec.check.mutation.mutate import failing, mutate, reasons_of
from herdspec.check.plans import mistaken_of
from herdspec.check.verdict import Standing
from herdspec.language.surface import Property
from herdspec.protocols.election import accepted_mutants as why
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.spec import Answer, Broker, Call, Election, Link, View

pytestmark = pytest.mark.xdist_group("mutate election")  # its mutants are made once
TWO_BROKERS = {"Broker": 2}

# ── The promises that are missing ───────────────────────────────────────────────────────────


@step
def paused_brokers_rest(before: Election, after: Election) -> bool:
    """A paused broker does nothing."""
    return all(
        not (before.paused[b] and after.paused[b])
        or (
            before.stands[b] == after.stands[b]
            and before.leads[b] == after.leads[b]
            and before.token[b] == after.token[b]
            and before.call[b] == after.call[b]
            and before.link[b] == after.link[b]
        )
        for b in Broker
    )


@step
def one_call_at_a_time(before: Election, after: Election) -> bool:
    """A call ends only by its answer, a broken connection or a restart."""
    return all(
        before.call[b] in (Call.NONE, after.call[b])
        or before.answer[b] != Answer.NONE
        or not before.connected[b]
        or (after.call[b] == Call.NONE and not after.stands[b] and not after.leads[b])
        for b in Broker
    )


@step
def looks_after_a_recall(before: Election, after: Election) -> bool:
    """Who recalls in vain and stands looks again."""
    return all(
        before.call[b] != Call.RECALL
        or after.call[b] in (Call.RECALL, Call.LOOK, Call.DELETE)
        or not after.stands[b]
        or not before.connected[b]
        or after.leads[b]
        for b in Broker
    )


@step
def looks_after_a_refusal(before: Election, after: Election) -> bool:
    """Who is refused and stands looks again."""
    return all(
        before.call[b] != Call.CREATE
        or before.answer[b] != Answer.REFUSED
        or after.call[b] in (Call.CREATE, Call.LOOK)
        or not after.stands[b]
        or not before.connected[b]
        for b in Broker
    )


@recoverable
def every_inbox_can_be_empty(s: Election) -> bool:
    """Every inbox can come to be empty."""
    return all(s.answer[b] == Answer.NONE for b in Broker)


@step
def only_who_stands_asks(before: Election, after: Election) -> bool:
    """Only who stands begins to look or to read."""
    return all(
        before.call[b] == after.call[b]
        or after.call[b] not in (Call.LOOK, Call.READ)
        or after.stands[b]
        for b in Broker
    )


@step
def only_who_resigned_deletes(before: Election, after: Election) -> bool:
    """Only who has resigned asks to delete."""
    return all(
        before.call[b] == after.call[b] or after.call[b] != Call.DELETE or not after.stands[b]
        for b in Broker
    )


@step
def lost_is_lost(before: Election, after: Election) -> bool:
    """A lost session is never merely suspended."""
    return all(before.link[b] != Link.LOST or after.link[b] != Link.SUSPENDED for b in Broker)


@step
def told_connected_is_connected(before: Election, after: Election) -> bool:
    """Who learns that it is connected is connected."""
    return all(
        before.link[b] == after.link[b] or after.link[b] != Link.CONNECTED or after.connected[b]
        for b in Broker
    )


@step
def a_new_process_begins_anew(before: Election, after: Election) -> bool:
    """A new process has no call, watch or epoch of its former one."""
    return (
        before.orphan
        or not after.orphan
        or all(
            after.holder != b
            or (after.token[b] == 0 and after.call[b] == Call.NONE and not after.watch[b])
            for b in Broker
        )
    )


@sometimes
def a_deletion_is_told(s: Election) -> bool:
    """A broker is told of its deletion."""
    return any(s.answer[b] == Answer.DELETED for b in Broker)


@step
def told_of_what_changes(before: Election, after: Election) -> bool:
    """A watch tells only of a change that its server shows."""
    return all(
        before.due[b]
        or not after.due[b]
        or not before.stands[b]
        or (not before.behind[b] and (before.holder is None) != (after.holder is None))
        or (
            before.behind[b]
            and not after.behind[b]
            and (
                before.view_epoch[b] != before.epoch
                or (before.view[b] == View.ABSENT) != (before.holder is None)
            )
        )
        for b in Broker
    )


@step
def nothing_to_who_is_about_to_see(before: Election, after: Election) -> bool:
    """A watch tells nothing to who is about to see it."""
    return all(
        before.due[b]
        or not after.due[b]
        or not before.stands[b]
        or before.call[b] != Call.LOOK
        or before.answer[b] != Answer.NONE
        for b in Broker
    )


@step
def a_watch_fires_once(before: Election, after: Election) -> bool:
    """A watch that fires is gone."""
    return all(
        before.due[b]
        or not after.due[b]
        or not before.stands[b]
        or not (before.watch[b] and after.watch[b])
        for b in Broker
    )


@step
def every_change_fires(before: Election, after: Election) -> bool:
    """Every creation fires the watches."""
    return all(
        before.holder is not None or after.holder is None or before.behind[b] or not after.watch[b]
        for b in Broker
    )


@step
def a_look_is_due_no_more(before: Election, after: Election) -> bool:
    """Nothing is due right after a call to look was sent."""
    return all(
        before.call[b] == Call.LOOK or after.call[b] != Call.LOOK or not after.due[b]
        for b in Broker
    )


@step
def a_node_goes_with_its_session(before: Election, after: Election) -> bool:
    """A node goes only by its leader's call or with its session."""
    return all(
        before.holder != b
        or after.holder == b
        or before.orphan
        or not after.alive[b]
        or before.call[b] == Call.DELETE
        for b in Broker
    )


@step
def created_where_none_stands(before: Election, after: Election) -> bool:
    """A node is created only where none stands."""
    return before.holder is None or after.holder is None or before.holder == after.holder


@step
def who_wins_has_read(before: Election, after: Election) -> bool:
    """Who wins has asked for it, with the epoch before its own."""
    return all(
        after.holder != b
        or before.holder == b
        or (before.call[b] == Call.CREATE and before.number[b] == before.epoch)
        for b in Broker
    )


@step
def counted_by_one(before: Election, after: Election) -> bool:
    """The epoch is counted up by one, and only with a new node."""
    return before.epoch == after.epoch or (
        after.epoch == before.epoch + 1 and after.holder is not None
    )


@sometimes
def an_idle_session_is_cut(s: Election) -> bool:
    """An idle, living session loses its connection."""
    return any(
        s.alive[b] and not s.connected[b] and s.link[b] == Link.CONNECTED and s.call[b] == Call.NONE
        for b in Broker
    )


@sometimes
def a_reply_is_swallowed(s: Election) -> bool:
    """The node stands, and no reply is under way."""
    return any(
        s.is_mine(b)
        and s.call[b] == Call.CREATE
        and s.answer[b] == Answer.NONE
        and not s.connected[b]
        for b in Broker
    )


@sometimes
def an_idle_session_expires(s: Election) -> bool:
    """A session expires before there was any epoch."""
    return any(not s.alive[b] and s.epoch == 0 for b in Broker)


@sometimes
def told_at_the_end(s: Election) -> bool:
    """An expired leader's watch has fired behind its last look."""
    return any(
        s.leads[b]
        and not s.alive[b]
        and s.due[b]
        and s.call[b] == Call.LOOK
        and s.answer[b] == Answer.MINE
        for b in Broker
    )


MISSING: dict[str, Property] = {
    why.PAUSED: paused_brokers_rest,
    why.ONE_CALL: one_call_at_a_time,
    why.LOOKS_AFTER_RECALL: looks_after_a_recall,
    why.LOOKS_AFTER_REFUSAL: looks_after_a_refusal,
    why.HANDLED: every_inbox_can_be_empty,
    why.ASKS_STANDING: only_who_stands_asks,
    why.DELETES_RESIGNED: only_who_resigned_deletes,
    why.LINK_ORDER: lost_is_lost,
    why.LINK_TRUE: told_connected_is_connected,
    why.NEW_PROCESS: a_new_process_begins_anew,
    why.DELETION_TOLD: a_deletion_is_told,
    why.TOLD_OF_CHANGE: told_of_what_changes,
    why.ABOUT_TO_SEE: nothing_to_who_is_about_to_see,
    why.FIRES_ONCE: a_watch_fires_once,
    why.FIRES_AT_ALL: every_change_fires,
    why.LOOK_IS_DONE: a_look_is_due_no_more,
    why.NODE_GOES: a_node_goes_with_its_session,
    why.CREATED_WHERE_NONE: created_where_none_stands,
    why.WINNER_HAS_READ: who_wins_has_read,
    why.COUNTED_BY_ONE: counted_by_one,
    why.CUT_ALONE: an_idle_session_is_cut,
    why.REPLY_SWALLOWED: a_reply_is_swallowed,
    why.EXPIRED_IDLE: an_idle_session_expires,
    why.TOLD_AT_THE_END: told_at_the_end,
}
"""The promise that each reason names, in its words."""


@cache
def made() -> dict[str, Mutant]:
    """The election's mutants, by their ids."""
    return {m.id: m for m in mutants(ELECTION)}


def without_prefix(reason: str) -> str:
    """A reason, without what it says of the bound first."""
    return reason.removeprefix(why.NO_END).removeprefix(why.BEYOND)


# ── What is quick ───────────────────────────────────────────────────────────────────────────


def test_every_reason_is_about_a_mutant() -> None:
    """Each accepted mutant is one that is made of the election as it stands, and has a reason."""
    reasons = reasons_of(ELECTION)

    assert reasons
    assert set(reasons) <= set(made())
    assert all(reasons.values())


def test_reasons_are_for_the_verified_election_only() -> None:
    """Another spec of the same state has mutants of its own, and none of these reasons."""
    assert reasons_of(ELECTION.replace("Another")) == {}


def test_every_reason_that_names_a_promise_has_it_here() -> None:
    """But for what needs two faults, or can be told by none, each reason's promise is known."""
    reasons = {without_prefix(reason) for reason in reasons_of(ELECTION).values()}

    assert reasons - set(MISSING) == {why.NEEDS_TWO_FAULTS, why.AS_EXPIRE}
    assert set(MISSING) <= reasons


@pytest.mark.parametrize("faults", [1, 2])
def test_the_missing_promises_hold_of_the_election(faults: int) -> None:
    """What is said to be missing is true of the election: it could be promised."""
    held = ELECTION.with_properties(*MISSING.values())

    found = explore(held, TWO_BROKERS, faults=faults)

    wrong = {name for name, _ in failing(found)} & {p.name for p in MISSING.values()}
    assert wrong == set()


# ── What takes longer ───────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.parametrize(
    ("id", "reason"),
    [(id, r) for id, r in why.ELECTION.items() if without_prefix(r) in MISSING],
)
def test_the_promise_that_a_reason_names_kills(id: str, reason: str) -> None:
    """With the promise that its reason names, the survivor would be killed."""
    promise = MISSING[without_prefix(reason)]
    mutant = made()[id].of(ELECTION.with_properties(promise))

    found = explore(mutant, TWO_BROKERS, faults=1)

    assert promise.name in {name for name, _ in failing(found)}


@pytest.mark.long
@pytest.mark.parametrize("id", [i for i, r in why.ELECTION.items() if r == why.NEEDS_TWO_FAULTS])
def test_what_needs_two_faults_is_killed_with_two(id: str) -> None:
    """What survives one fault only is killed with two."""
    found = {name for name, _ in failing(explore(made()[id].of(ELECTION), TWO_BROKERS, faults=2))}
    already = {name for name, _ in failing(explore(ELECTION, TWO_BROKERS, faults=2))}

    assert found - already


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_election_notices_its_mistakes() -> None:
    """Every mutant of the election is killed, or accepted with a reason; no reason is stale."""
    found = mutate(
        ELECTION, TWO_BROKERS, faults=1, reasons=reasons_of(ELECTION),
        source=partial(mistaken_of, "election"), processes=2,
    )  # fmt: skip

    assert ([s.id for s in found.holes], found.undecided, found.stale) == ([], [], [])
    assert found.standing is Standing.HOLDS
    assert (len(found.killed), found.judged) == (194, 256)
    assert set(found.excused) == {i for i, r in why.ELECTION.items() if r != without_prefix(r)}
