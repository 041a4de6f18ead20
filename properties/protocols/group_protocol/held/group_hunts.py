"""Who finds which of the mistakes that are planted in the group coordinator's core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from properties.protocols.group_protocol.held.group_mutants import MUTANTS
from properties.protocols.group_protocol.held.group_mutants_seen import SEEN_MUTANTS

WORLD, REPLAY = "simulated world", "replay"
NOT_IN_TIME = "does not settle"
UNHURRIED = "fetches_at_once"
"""It is found by the replay of a story of its own: our clients ask for nothing too early."""
ALL_MUTANTS: Mapping[str, type[GroupCoordinator]] = {**MUTANTS, **SEEN_MUTANTS}


@dataclass(frozen=True)
class Hunt:
    """A simulated run, who finds a mistake in it, and the line that the replay stops at."""

    seed: int
    finders: tuple[str, ...]
    action: str = ""


RUNS: Mapping[str, Hunt] = {
    "welcomes_strangers": Hunt(0, (REPLAY,), "handle_join_group"),
    "leader_unheard": Hunt(0, (REPLAY,), "handle_join_group"),
    "beats_any_generation": Hunt(1, (REPLAY,), "heartbeat"),
    "never_says_rebalance": Hunt(0, (WORLD, REPLAY), "heartbeat"),
    "nobody_leaves": Hunt(2, (REPLAY,), "heartbeat"),
    "answers_unstored": Hunt(0, (REPLAY,), "answer_commits"),
    "waits_for_nobody": Hunt(0, (WORLD, REPLAY), "complete_join"),
    "skips_generations": Hunt(0, (WORLD, REPLAY), "heartbeat"),
    "forgets_offsets": Hunt(0, (WORLD, REPLAY), "handle_offset_fetch"),
    "forgets_a_member": Hunt(0, (REPLAY,), "complete_join"),
    "assigns_unstored": Hunt(0, (REPLAY,), "answer_syncs"),
    "keeps_generation": Hunt(0, (WORLD, REPLAY), "complete_join"),
    "says_the_leaders_part": Hunt(0, (WORLD,)),
    "answers_the_leader_alone": Hunt(0, (WORLD,)),
    "makes_all_leaders": Hunt(0, (WORLD,)),
    "deaf_to_newcomers": Hunt(0, (REPLAY,), "handle_join_group"),
    "misses_nobody": Hunt(2, (REPLAY,), "heartbeat"),
    "says_what_was": Hunt(0, (WORLD,)),
    "fetches_one_too_far": Hunt(0, (WORLD, REPLAY), "handle_offset_fetch"),
    "commits_one_too_few": Hunt(0, (WORLD,)),
    "commits_for_all": Hunt(0, (WORLD, REPLAY), "flush_offsets"),
    "begins_anew": Hunt(0, (WORLD, REPLAY), "heartbeat"),
}
"""By mistake. The replay reads what a coordinator does by its own word, the world what comes of it:
that a session which is over goes on, or a commit is stored otherwise, no line tells."""

PLAYED: Mapping[str, tuple[str, str]] = {
    "never_says_rebalance": ("rolling_restart", NOT_IN_TIME),
    "skips_generations": ("failover", "what_is_handed_out_is_stored"),
    "forgets_offsets": ("failover", "who_begins_does_so_at_the_stored_offset"),
    "keeps_generation": ("rolling_restart", "owners_change_with_the_generation"),
    "says_the_leaders_part": ("zombie", NOT_IN_TIME),
    "answers_the_leader_alone": ("slow_handler", NOT_IN_TIME),
    "makes_all_leaders": ("slow_handler", "one_leader"),
    "never_expires": ("gone", NOT_IN_TIME),
    "deaf_to_newcomers": ("slow_handler", NOT_IN_TIME),
    "misses_nobody": ("rolling_restart", NOT_IN_TIME),
    "fetches_one_too_far": ("zombie", "nobody_is_past_the_unfinished"),
    "commits_one_too_few": ("zombie", "exclusive_fenced"),
    "commits_for_all": ("zombie", "only_finished_is_committed"),
    "begins_anew": ("failover", "owners_change_with_the_generation"),
}
"""By mistake: a scenario of the broker for tests that shows it, and what is then broken."""


def row(name: str) -> str:
    """A mistake's line in the table of docs/testing_consumers.md."""
    scenario, finding = PLAYED.get(name, ("", ""))
    shown = f"`{scenario}`" if scenario else "–"
    broken = finding if finding == NOT_IN_TIME else f"`{finding}`" if finding else ""
    runs = RUNS.get(name)
    found = "replay of a story" if name == UNHURRIED else "–" if runs is None else (
        " and ".join(runs.finders)
    )  # fmt: skip
    return f"| {(ALL_MUTANTS[name].__doc__ or '').strip()} | {shown} | {broken} | {found} |"
