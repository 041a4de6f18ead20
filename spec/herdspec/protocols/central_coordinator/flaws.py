"""
Flaws: the drafts' coordinator, and the verified one with single mistakes put back.

Each of `FLAWS` is the verified protocol with one habit of the drafts (`000`, `001`, `002`), or with
one mistake that the checkers found while the protocol was written (`FOUND`); the implementation's
cores have a switch of the same name. `DRAFTED_002` is `002` as it stands (`drafted.py`), with its
own consumer, `DRAFTED_000` with that of `000`; no core of ours does all that at once. What must
come of each is declared: the property that fails, after how many steps, and by which action. A
missing, a different or a further failure is a failure of the check.

Source: system B as PROTOCOLS.md lists its flaws (section B, "Flaws the model must show").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from herdspec.language.specification import Specification, specification
from herdspec.protocols.central_coordinator import drafted, mistakes
from herdspec.protocols.central_coordinator.properties import HELD
from herdspec.protocols.flaws import Failure, Flaw, variant_name


def _flaw(
    failures: dict[str, Failure], spec: Specification, *switches: str, faults: int = 1,
    members: int = 2, brokers: int = 1,
) -> Flaw:  # fmt: skip
    sizes = {"Broker": brokers, "Member": members, "Partition": 1}
    return Flaw(spec, frozenset(switches), failures, faults, sizes, bound=6)


def _but(name: str, **functions: Callable[..., object]) -> Specification:
    return HELD.replace(variant_name(name), **functions)


EXCLUSIVE = "exclusive"
SETTLES = "settles"
TWICE = "a_start_is_at_the_stored_offset"
STORED = "what_is_stored_is_of_the_present_epoch"
STARTED = "a_start_says_what_is_stored"

FLAWS = {
    "no_barrier": _flaw(
        {EXCLUSIVE: Failure(26, "handle_start")},
        specification(mistakes.StopsAnew, *(p.python for p in HELD.properties)).replace(
            "NoBarrier",
            write_owners=mistakes.write_at_once,
            is_free=mistakes.everything_is_free,
            send_stop=mistakes.send_stop_meanwhile,
            send_start=mistakes.start_who_has_stopped,
        ),
        "no_barrier",
    ),
    "lost_trigger": _flaw(
        {
            "complete": Failure(17, "finish_rebalance"),
            SETTLES: Failure(17, "finish_rebalance"),
        },
        _but(
            "lost_trigger",
            request_rebalance=mistakes.drop_the_trigger,
            begin_rebalance=mistakes.begin_with_a_plan,
            write_owners=mistakes.write_as_planned,
            refuse_write=mistakes.refuse_and_remember,
            fail_rebalance=mistakes.fail_and_forget,
            abandon_rebalance=mistakes.abandon_and_forget,
        ),
        "lost_trigger",
    ),
    "flag_stuck": _flaw(
        {SETTLES: Failure(9, "fail_rebalance")},
        _but("flag_stuck", requeue=mistakes.requeue_while_retries_last),
        "flag_stuck",
    ),
    "no_start": _flaw(
        {
            "complete": Failure(13, "begin_rebalance"),
            SETTLES: Failure(13, "begin_rebalance"),
        },
        _but("no_start", necessary=mistakes.stored_owners_differ),
        "no_start",
    ),
    "stale_offsets": _flaw(
        {TWICE: Failure(29, "send_start"), STARTED: Failure(29, "send_start")},
        specification(mistakes.ReadsOffsetsEarly, *(p.python for p in HELD.properties)),
        "stale_offsets",
        faults=2,
    ),
    "deposed_goes_on": _flaw(
        {
            "who_does_not_lead_commands_nobody": Failure(6, "step_down"),
            EXCLUSIVE: Failure(27, "handle_start"),
        },
        _but(
            "deposed_goes_on",
            step_down=mistakes.step_down_and_go_on,
            coordinator_startup=mistakes.start_up_anew,
            is_free=mistakes.later_owners_are_unknown,
            lease_is_over=mistakes.whom_another_has_is_gone,
        ),
        "deposed_goes_on",
        brokers=2,
    ),
    "owners_written_late": _flaw(
        {
            EXCLUSIVE: Failure(22, "handle_start"),
            "exclusive_fenced": Failure(16, "handle_commit"),
            STARTED: Failure(10, "send_start"),
        },
        _but(
            "owners_written_late",
            write_owners=mistakes.write_as_started,
            send_start=mistakes.start_as_decided,
            send_ping=mistakes.ping_who_has_started,
            accepts_offset=mistakes.offsets_of_who_has_started,
            answered=mistakes.hear_of_the_write,
            refuse_write=mistakes.refuse_and_remember,
            fail_rebalance=mistakes.fail_and_forget,
            finish_rebalance=mistakes.finish_as_written,
        ).add("OwnersWrittenLate", decide_owners=mistakes.decide_owners),
        "owners_written_late",
        brokers=2,
    ),
    "partial_failover": _flaw(
        {EXCLUSIVE: Failure(27, "handle_start")},
        _but("partial_failover", is_free=mistakes.who_has_not_come_back_is_gone),
        "partial_failover",
        brokers=2,
    ),
    "no_lease": _flaw(
        {EXCLUSIVE: Failure(26, "handle_start")},
        _but("no_lease", lease_is_over=mistakes.gone_is_gone),
        "no_lease",
    ),
    "reconnects_fetching": _flaw(
        {EXCLUSIVE: Failure(27, "handle_start")},
        _but(
            "reconnects_fetching",
            let_go=mistakes.keep_fetching,
            lease_is_over=mistakes.whoever_let_go_is_gone,
        ),
        "reconnects_fetching",
    ),
    "unfenced": _flaw(
        {
            "only_the_present_epoch_writes": Failure(12, "serve_owners"),
            STORED: Failure(12, "serve_owners"),
            "complete": Failure(26, "finish_rebalance"),
            EXCLUSIVE: Failure(27, "handle_start"),
            SETTLES: Failure(18, "on_lost_connection"),
        },
        _but("unfenced", fenced_write=mistakes.any_version).drop("Unfenced", "refuse_stale"),
        "unfenced",
        brokers=2,
    ),
    "ignores_epoch": _flaw(
        {"members_follow_no_older_epoch": Failure(15, "handle_ping")},
        _but("ignores_epoch", accepts=mistakes.accept_any_epoch),
        "ignores_epoch",
        faults=2,
        members=1,
        brokers=2,
    ),
}
"""Habits of the drafts, one at a time."""

FOUND = {
    "empty_group_hangs": _flaw(
        {SETTLES: Failure(7, "handle_closed")},
        HELD.drop("EmptyGroupHangs", "abandon_rebalance"),
        "empty_group_hangs",
        members=1,
    ),
    "stop_keeps_ack": _flaw(
        {SETTLES: Failure(23, "begin_rebalance")},
        _but("stop_keeps_ack", send_stop=mistakes.stop_and_keep_the_ack),
        "stop_keeps_ack",
        faults=2,
        members=1,
    ),
    "member_by_id": _flaw(
        {
            EXCLUSIVE: Failure(30, "handle_start"),
            TWICE: Failure(25, "serve_offsets"),
            STARTED: Failure(16, "send_start"),
        },
        _but("member_by_id", is_given=mistakes.given_by_id),
        "member_by_id",
        faults=2,
    ),
    "stale_commit": _flaw(
        {
            EXCLUSIVE: Failure(27, "handle_start"),
            "exclusive_fenced": Failure(29, "handle_commit"),
            TWICE: Failure(33, "serve_offsets"),
        },
        _but(
            "stale_commit",
            accepts_offset=mistakes.offsets_of_the_past,
            lease_is_over=mistakes.who_fetches_nothing_is_gone,
        ),
        "stale_commit",
        faults=2,
        brokers=2,
    ),
}
"""Mistakes that the checkers found while the protocol was written; each forced a correction."""

AS_DRAFTED = (
    specification(
        drafted.AsDrafted,
        *(p.python for p in HELD.properties),
        drafted.who_has_started_fetches_what_it_owns,
    )
    .replace("Drafted000", **drafted.HABITS)
    .drop("Drafted000", "refuse_stale")
)
"""`002` as it stands."""

AS_DRAFTED_FAILS = {
    EXCLUSIVE: Failure(21, "handle_start"),
    "exclusive_fenced": Failure(16, "handle_commit"),
    "only_the_present_epoch_writes": Failure(17, "serve_owners"),
    STORED: Failure(17, "serve_owners"),
    TWICE: Failure(29, "serve_offsets"),
    STARTED: Failure(9, "send_start"),
    "who_does_not_lead_commands_nobody": Failure(7, "step_down"),
    "complete": Failure(8, "begin_rebalance"),
    "who_has_started_fetches_what_it_owns": Failure(14, "serve_owners"),
}

DRAFTED_000 = _flaw(AS_DRAFTED_FAILS, AS_DRAFTED)
"""`002`'s coordinator with `000`'s consumer, which closes its fetchers on a lost connection."""

DRAFTED_002 = _flaw(
    AS_DRAFTED_FAILS, AS_DRAFTED.replace("Drafted002", let_go=mistakes.keep_fetching)
)
"""`002`'s coordinator with `002`'s consumer, which reconnects and fetches on."""
ALONE = replace(
    DRAFTED_002,
    failures={SETTLES: Failure(5, "begin_rebalance")},
    sizes=dict.fromkeys(DRAFTED_002.spec.sorts, 1),
)
"""The draft with one of each sort: small enough to tell what must happen, and does not."""
