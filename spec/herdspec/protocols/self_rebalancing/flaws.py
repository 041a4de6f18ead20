"""
Flaws: the drafted protocol, and the corrected one with single mistakes put back.

`DRAFTED` is what `004` says, with the facts of Kafka 0.8. Each of `FLAWS` is the corrected protocol
with one habit of the draft; each of `READINGS` with one way in which `004` can be read; each of
`FOUND` with a mistake that is in no list. What must come of each is declared: the property that
fails, after how many steps, and by which action. A missing, a different or a further failure is a
failure of the check.

Source: system A as PROTOCOLS.md lists its flaws (section A, "Flaws the model must show").
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec.language.specification import Specification, specification
from herdspec.protocols.flaws import Failure, Flaw, variant_name
from herdspec.protocols.self_rebalancing import mistakes
from herdspec.protocols.self_rebalancing.properties import HELD, who_stops_has_a_reason
from herdspec.protocols.self_rebalancing.spec import SelfRebalancing


def _flaw(
    failures: dict[str, Failure], spec: Specification, *switches: str, faults: int = 1,
    members: int = 2, partitions: int = 1,
) -> Flaw:  # fmt: skip
    sizes = {"Member": members, "Partition": partitions}
    return Flaw(spec, frozenset(switches), failures, faults, sizes, bound=8)


def _but(name: str, **functions: Callable[..., object]) -> Specification:
    return HELD.replace(variant_name(name), **functions)


EARLY_OFFSETS: dict[str, Callable[..., object]] = {
    "read_offsets": mistakes.read_offsets_before_claims,
    "start_fetchers": mistakes.start_once_all_is_claimed,
}
"""Offsets are read with the plan, before anything is owned."""

FLAWS = {
    "herd_effect": _flaw(
        {"who_stops_has_a_reason": Failure(11, "close_fetchers")},
        specification(SelfRebalancing, who_stops_has_a_reason),
    ),
    "split_brain": _flaw(
        {"exclusive": Failure(20, "start_fetchers"), "who_fetches_owns": Failure(11, "expire")},
        _but("split_brain", lease_is_over=mistakes.nobody_keeps_a_lease).drop(
            "SplitBrain", "suspend"
        ),
        "split_brain",
    ),
    "stale_start": _flaw(
        {
            "committed_offsets_never_go_back": Failure(22, "commit"),
            "a_start_is_at_the_stored_offset": Failure(21, "start_fetchers"),
        },
        _but("stale_start", read_ids=mistakes.read_ids_before_offsets, **EARLY_OFFSETS),
        "stale_start",
    ),
    "zombie_commit": _flaw(
        {
            "exclusive_fenced": Failure(23, "commit_offsets"),
            "committed_offsets_never_go_back": Failure(26, "commit_offsets"),
            "a_start_is_at_the_stored_offset": Failure(25, "start_fetchers"),
            "what_is_finished_is_stored_at_a_release": Failure(28, "release"),
        },
        _but("zombie_commit", accepts_commit=mistakes.any_commit),
        "zombie_commit",
    ),
    "zombie_release": _flaw(
        {
            "exclusive": Failure(29, "start_fetchers"),
            "who_fetches_owns": Failure(24, "start_fetchers"),
            "complete": Failure(28, "start_fetchers"),
            "who_owns_is_not_deleted_by_others": Failure(22, "release"),
            "a_start_is_at_the_stored_offset": Failure(32, "start_fetchers"),
            "settles": Failure(28, "start_fetchers"),
        },
        _but("zombie_release", may_release=mistakes.what_it_believes_to_own_or_claimed),
        "zombie_release",
    ),
    "lost_wake_up": _flaw(
        {"settles": Failure(18, "renew_watches")},
        _but(
            "lost_wake_up",
            read_topics=mistakes.read_topics_unwatched,
            read_ids=mistakes.read_ids_unwatched,
        ).add("LostWakeUp", renew_watches=mistakes.renew_watches),
        "lost_wake_up",
        faults=0,
    ),
    "retries_exhausted": _flaw(
        {"settles": Failure(29, "start_fetchers")},
        _but(
            "retries_exhausted",
            close_fetchers=mistakes.close_while_retries_last,
            refuse_claim=mistakes.refuse_and_back_off,
        ),
        "retries_exhausted",
        faults=0,
    ),
    "self_conflict": _flaw(
        {"settles": Failure(9, "refuse_claim")},
        _but(
            "self_conflict",
            in_doubt=mistakes.nothing_is_in_doubt,
            refuse_claim=mistakes.refuse_even_by_itself,
        ).drop("SelfConflict", "recall"),
        "self_conflict",
    ),
}
"""Habits of the draft, one at a time; the herd is of the corrected protocol, too."""

READINGS = {
    "fetched_for_consumed": _flaw(
        {
            "only_finished_is_committed": Failure(11, "shutdown"),
            "nobody_is_past_the_unfinished": Failure(19, "read_offsets"),
            "committed_offsets_never_go_back": Failure(14, "commit_offsets"),
        },
        _but("fetched_for_consumed", progress=mistakes.fetched_offset),
        "fetched_for_consumed",
    ),
    "released_before_stopped": _flaw(
        {
            "exclusive": Failure(21, "start_fetchers"),
            "who_fetches_owns": Failure(13, "release"),
            "what_is_finished_is_stored_at_a_release": Failure(15, "release"),
        },
        _but(
            "released_before_stopped",
            close_fetchers=mistakes.take_the_flag_and_pull_on,
            read_topics=mistakes.read_topics_and_close,
        ),
        "released_before_stopped",
    ),
    "pulled_before_owned": _flaw(
        {
            "exclusive": Failure(16, "start_fetchers"),
            "who_fetches_owns": Failure(8, "start_fetchers"),
            "complete": Failure(8, "start_fetchers"),
            "a_start_is_at_the_stored_offset": Failure(20, "start_fetchers"),
            "what_is_finished_is_stored_at_a_release": Failure(17, "release"),
            "settles": Failure(8, "start_fetchers"),
        },
        _but("pulled_before_owned", has_all=mistakes.nothing_need_be_claimed),
        "pulled_before_owned",
    ),
    "no_commit_at_closing": _flaw(
        {"what_is_finished_is_stored_at_a_release": Failure(15, "release")},
        _but("no_commit_at_closing", commit_offsets=mistakes.submit_nothing),
        "no_commit_at_closing",
    ),
    "sharers_not_dragged_in": _flaw(
        {"complete": Failure(10, "start_fetchers"), "settles": Failure(10, "start_fetchers")},
        _but("sharers_not_dragged_in", drags_in=mistakes.only_like_minded),
        "sharers_not_dragged_in",
        partitions=2,
    ),
    "registry_before_owners": _flaw(
        {
            "exclusive": Failure(24, "start_fetchers"),
            "who_fetches_owns": Failure(19, "start_fetchers"),
            "complete": Failure(23, "start_fetchers"),
            "who_owns_is_not_deleted_by_others": Failure(17, "release"),
            "a_start_is_at_the_stored_offset": Failure(27, "start_fetchers"),
            "settles": Failure(23, "start_fetchers"),
        },
        _but("registry_before_owners", may_release=mistakes.what_it_planned),
        "registry_before_owners",
    ),
}
"""Ways in which `004` can be read, one at a time."""

FOUND = {
    "new_session_goes_on": _flaw(
        {
            "exclusive": Failure(21, "start_fetchers"),
            "who_fetches_owns": Failure(12, "start_fetchers"),
            "a_start_is_at_the_stored_offset": Failure(24, "start_fetchers"),
        },
        _but("new_session_goes_on", handle_new_session=mistakes.go_on_with_a_new_session),
        "new_session_goes_on",
    ),
    "suspended_for_good": _flaw(
        {"complete": Failure(12, "reconnect"), "settles": Failure(12, "reconnect")},
        _but("suspended_for_good", reconnect=mistakes.reconnect_and_go_on),
        "suspended_for_good",
    ),
}
"""Mistakes that the checkers found while the protocol was written; each forced a correction."""

DRAFTED = _flaw(
    {
        "exclusive": Failure(20, "start_fetchers"),
        "who_fetches_owns": Failure(11, "expire"),
        "complete": Failure(9, "start_fetchers"),
        "exclusive_fenced": Failure(23, "commit"),
        "who_owns_is_not_deleted_by_others": Failure(23, "release"),
        "committed_offsets_never_go_back": Failure(22, "commit"),
        "a_start_is_at_the_stored_offset": Failure(21, "start_fetchers"),
        "what_is_finished_is_stored_at_a_release": Failure(28, "release"),
        "settles": Failure(10, "renew_watches"),
    },
    HELD.replace(
        "Drafted",
        lease_is_over=mistakes.nobody_keeps_a_lease,
        handle_new_session=mistakes.go_on_with_a_new_session,
        reconnect=mistakes.reconnect_and_go_on,
        read_topics=mistakes.read_topics_unwatched,
        read_ids=mistakes.read_ids_unwatched_before_offsets,
        accepts_commit=mistakes.any_commit,
        may_release=mistakes.what_it_believes_to_own,
        in_doubt=mistakes.nothing_is_in_doubt,
        refuse_claim=mistakes.refuse_and_forget,
        close_fetchers=mistakes.close_while_retries_last,
        **EARLY_OFFSETS,
    )
    .drop("Drafted", "recall", "suspend")
    .add("Drafted", renew_watches=mistakes.renew_watches),
    "split_brain",
    "stale_start",
    "zombie_commit",
    "zombie_release",
    "lost_wake_up",
    "retries_exhausted",
    "self_conflict",
    "new_session_goes_on",
    "suspended_for_good",
)
"""Protocol of `004`, as it stands there, and how it fails."""
