"""
What goes wrong: the drafted protocol, and the corrected one with single mistakes put back.

`DRAFTED` is what `004` says, with the facts of Kafka 0.8. Each of `FLAWS` is the corrected protocol
with one habit of the draft, or one way in which `004` can be read; each of `FOUND` with a mistake
that is in no list. What must come of each is declared: the property that fails, after how many
steps, and by which action. A missing, a different or a further failure is a failure of the check.

Source: system A as PROTOCOLS.md lists its flaws (section A, "Flaws the model must show").
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec.language.specification import Specification
from herdspec.protocols.flaws import Failure, Flaw
from herdspec.protocols.self_rebalancing import mistakes
from herdspec.protocols.self_rebalancing.properties import HELD


def _flaw(
    failures: dict[str, Failure], spec: Specification, *switches: str, faults: int = 1,
    members: int = 2, partitions: int = 1,
) -> Flaw:  # fmt: skip
    sizes = {"Member": members, "Partition": partitions}
    return Flaw(spec, frozenset(switches), failures, faults, sizes, bound=8)


def _but(name: str, **functions: Callable[..., object]) -> Specification:
    return HELD.replace("".join(word.title() for word in name.split("_")), **functions)


FLAWS = {
    "split_brain": _flaw({}, _but("split_brain", lease_is_over=mistakes.nobody_keeps_a_lease), "no_lease"),
    "stale_start": _flaw({}, _but("stale_start", read_ids=mistakes.read_ids_before_offsets,
        read_offsets=mistakes.read_offsets_before_claims, start_fetchers=mistakes.start_once_all_is_claimed), "x"),
    "zombie_commit": _flaw({}, _but("zombie_commit", accepts_commit=mistakes.any_commit), "x"),
    "zombie_release": _flaw({}, _but("zombie_release", may_release=mistakes.what_it_believes_to_own), "x"),
    "lost_wake_up": _flaw({}, _but("lost_wake_up", read_topics=mistakes.read_topics_unwatched, read_ids=mistakes.read_ids_unwatched).add("LostWakeUp", renew_watches=mistakes.renew_watches), "x"),
    "retries_exhausted": _flaw({}, _but("retries_exhausted", close_fetchers=mistakes.close_while_retries_last, refuse_claim=mistakes.refuse_and_back_off), "x"),
    "self_conflict": _flaw({}, _but("self_conflict", in_doubt=mistakes.nothing_is_in_doubt).drop("SelfConflict","recall"), "x"),
    "fetched_for_consumed": _flaw({}, _but("fetched_for_consumed", progress=mistakes.fetched_offset), "x"),
    "released_before_stopped": _flaw({}, _but("released_before_stopped", close_fetchers=mistakes.take_the_flag_and_pull_on, read_topics=mistakes.read_topics_and_close), "x"),
    "pulled_before_owned": _flaw({}, _but("pulled_before_owned", has_all=mistakes.nothing_need_be_claimed), "x"),
    "no_commit_at_closing": _flaw({}, _but("no_commit_at_closing", commit_offsets=mistakes.submit_nothing), "x"),
    "sharers_not_dragged_in": _flaw({}, _but("sharers_not_dragged_in", drags_in=mistakes.only_like_minded), "x", partitions=2),
}
FOUND = {
    "new_session_goes_on": _flaw({}, _but("new_session_goes_on", handle_new_session=mistakes.go_on_with_a_new_session), "x"),
}
DRAFTED = _flaw({}, HELD.replace("Drafted",
    lease_is_over=mistakes.nobody_keeps_a_lease,
    handle_new_session=mistakes.go_on_with_a_new_session,
    reconnect=mistakes.reconnect_and_go_on,
    read_topics=mistakes.read_topics_unwatched,
    read_ids=mistakes.read_ids_unwatched_before_offsets,
    read_offsets=mistakes.read_offsets_before_claims,
    start_fetchers=mistakes.start_once_all_is_claimed,
    accepts_commit=mistakes.any_commit,
    may_release=mistakes.what_it_believes_to_own,
    in_doubt=mistakes.nothing_is_in_doubt,
    refuse_claim=mistakes.refuse_and_back_off,
    close_fetchers=mistakes.close_while_retries_last,
).drop("Drafted", "recall", "suspend").add("Drafted", renew_watches=mistakes.renew_watches), "x")
