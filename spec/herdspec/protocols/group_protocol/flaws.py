"""
Flaws: the printed client, Kafka's own coordinator, and what care is taken of.

Each of `PRINTED` is the verified protocol with one habit of `003`'s client, each of `KAFKAS` with
one of Kafka's own coordinator, each of `FOUND` without something that the verified one takes care
of. `DRAFTED` is `003`'s client as a whole. What must come of each is declared: the property that
fails, after how many steps, and by which action. A missing, a different or a further failure is a
failure of the check.

Source: system C as PROTOCOLS.md lists its flaws (section C, "Flaws the model must show").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from herdspec.language.specification import Specification
from herdspec.protocols.flaws import Failure, Flaw, variant_name
from herdspec.protocols.group_protocol import mistakes
from herdspec.protocols.group_protocol.properties import HELD


def _flaw(
    failures: dict[str, Failure], spec: Specification, *switches: str, faults: int = 1,
    brokers: int = 1, members: int = 2,
) -> Flaw:  # fmt: skip
    sizes = {"Broker": brokers, "Member": members, "Partition": 1}
    return Flaw(spec, frozenset(switches), failures, faults, sizes, bound=8)


def flaw_of_form(
    failures: dict[str, Failure], name: str, *, form: str, spec: Specification, faults: int,
    brokers: int = 1, members: int = 2, other_sizes: Mapping[str, int] | None = None,
    without: tuple[str, ...] = (), **functions: Callable[..., object],
) -> Flaw:  # fmt: skip
    """A form of the protocol with one mistake, `without` the actions its stories do without."""
    variant = variant_name(name)
    made = spec.replace(variant, **functions).drop(variant, *without)
    sizes = {"Broker": brokers, "Member": members, "Partition": 1, **(other_sizes or {})}
    return Flaw(made, frozenset({name}), failures, faults, sizes, bound=8, form=form)


def _but(name: str, **functions: Callable[..., object]) -> Specification:
    return HELD.replace(variant_name(name), **functions)


PRINTED = {
    "join_future_never_reset": _flaw(
        {"settles": Failure(19, "update_fetch_positions")},
        _but("join_future_never_reset", initiate_join_group=mistakes.join_only_once),
        "join_future_never_reset",
        faults=0,
    ),
    "errors_complete_nothing": _flaw(
        {"settles": Failure(10, "handle_join_group")},
        HELD.drop("ErrorsCompleteNothing", "reset_generation", "join_again"),
        "errors_complete_nothing",
    ),
    "rejoin_flag_lost": _flaw(
        {"complete": Failure(18, "answer_syncs"), "settles": Failure(21, "heartbeat")},
        _but(
            "rejoin_flag_lost",
            on_join_complete=mistakes.complete_and_forget,
            update_metadata=mistakes.notice_once,
        ),
        "rejoin_flag_lost",
        members=1,
    ),
    "ghost_member": _flaw(
        {"no_ghosts": Failure(10, "answer_joins")},
        _but(
            "ghost_member",
            handle_join_group=mistakes.join_without_id,
            begin_sync=mistakes.sync_with_id,
            is_gone=mistakes.bears_no_id,
        ).drop("GhostMember", "learn_member_id"),
        "ghost_member",
        members=1,
    ),
    "leave_while_processing": _flaw(
        {
            "exclusive": Failure(36, "update_fetch_positions"),
            "who_consumes_owns": Failure(33, "update_fetch_positions"),
        },
        _but("leave_while_processing", poll_time_out=mistakes.leave_and_go_on),
        "leave_while_processing",
    ),
    "joins_with_partitions": _flaw(
        {
            "exclusive": Failure(42, "answer_syncs"),
            "who_consumes_owns": Failure(34, "store_assignment"),
        },
        _but("joins_with_partitions", initiate_join_group=mistakes.join_with_partitions),
        "joins_with_partitions",
        faults=0,
    ),
}
"""Habits of the client as it is printed, one at a time."""

KAFKAS = {
    "commit_by_generation": _flaw(
        {
            "exclusive_fenced": Failure(40, "handle_offset_commit"),
            "committed_offsets_never_go_back": Failure(57, "store_offsets"),
        },
        _but("commit_by_generation", accepts_offset=mistakes.only_the_generation),
        "commit_by_generation",
        faults=2,
    ),
    "generation_unstored": _flaw(
        {
            "one_leader": Failure(26, "on_join_leader"),
            "what_is_handed_out_is_stored": Failure(14, "load_group"),
            "complete": Failure(31, "load_group"),
            "what_is_stored_is_of_the_present_epoch": Failure(13, "load_group"),
            "generations_never_go_back": Failure(13, "load_group"),
        },
        _but("generation_unstored", load_group=mistakes.load_what_was_assigned),
        "generation_unstored",
    ),
    "evicted_goes_on": _flaw(
        {
            "exclusive": Failure(35, "update_fetch_positions"),
            "who_consumes_owns": Failure(32, "update_fetch_positions"),
        },
        _but("evicted_goes_on", has_stopped=mistakes.gone_at_once),
        "evicted_goes_on",
    ),
}
"""Flaws of Kafka's own coordinator, or client."""

FOUND = {
    "expels_who_waits": _flaw(
        {"nobody_is_expelled_who_waits": Failure(10, "expire")},
        _but("expels_who_waits", evict=mistakes.expel_whoever),
        "expels_who_waits",
    ),
    "new_member_expires": _flaw(
        {"nobody_is_expelled_who_waits": Failure(10, "expire_new_member")},
        HELD.add("NewMemberExpires", expire_new_member=mistakes.expire_new_member),
        "new_member_expires",
        members=1,
    ),
    "unfenced": _flaw(
        {
            "only_the_present_epoch_writes": Failure(13, "store_generation"),
            "what_is_stored_is_of_the_present_epoch": Failure(13, "store_generation"),
        },
        _but("unfenced", fenced_write=mistakes.any_write),
        "unfenced",
        brokers=2,
        members=1,
    ),
    "late_join": _flaw(
        {
            "exclusive": Failure(41, "update_fetch_positions"),
            "who_consumes_owns": Failure(38, "store_assignment"),
        },
        HELD.add("LateJoin", read_late_join=mistakes.read_late_join),
        "late_join",
    ),
}
"""Flaws that the verified protocol takes care of, or assumes away."""

DRAFTED = _flaw(
    {
        "exclusive": Failure(29, "update_fetch_positions"),
        "who_consumes_owns": Failure(26, "update_fetch_positions"),
        "complete": Failure(15, "answer_syncs"),
        "no_ghosts": Failure(10, "answer_joins"),
        "settles": Failure(15, "handle_sync_group"),
    },
    HELD.replace(
        "Drafted",
        initiate_join_group=mistakes.join_only_once,
        on_join_complete=mistakes.complete_and_forget,
        update_metadata=mistakes.notice_once,
        poll_time_out=mistakes.leave_and_go_on,
        handle_join_group=mistakes.join_without_id,
        begin_sync=mistakes.sync_with_id,
        is_gone=mistakes.bears_no_id,
        has_stopped=mistakes.gone_at_once,
    ).drop("Drafted", "learn_member_id", "reset_generation", "join_again"),
    *PRINTED,
)
"""`003`'s client as a whole."""
