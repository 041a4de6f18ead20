"""
Mistakes in the group protocol that nothing notices, and why they may live.

`herdproof mutate group_protocol` puts mistakes into the spec, one at a time, and explores each at
three small sizes in turn (`mistaken` in `plan.py`), with all that is promised, proved and watched
(`watched.py`). Those below survive, each for its reason, which is tested where it can be
(`properties/protocols/group_protocol/spec/test_mutate_group.py`). A reason is stale, and `mutate`
fails, once its mutant is killed or is no more.

Of the forms those mistakes are judged that are in what each does otherwise, with one member
(`mistaken_forms`, `variants/watched_forms.py`; `test_mutate_forms.py` beside the other).
"""

from __future__ import annotations

from collections.abc import Mapping

NEVER = (
    "a fault, or what users do, that never happens, or only where it changes nothing: there is "
    "less to reach, and no promise needs what is missing"
)
LARGER = "two members are needed for its answer to matter: with these the group does not settle"
AS_LOSE = (
    "it is a step of `lose` as well, but no fault: it may happen for ever, with generations that "
    "rise beyond every bound, so that no exploration decides whether the group settles; of one "
    "step no promise could tell the two apart"
)
AS_EXPIRE = (
    "it is a step of `expire` as well, but no fault: it may happen for ever, with generations that "
    "rise beyond every bound, so that no exploration decides whether the group settles; of one "
    "step no promise could tell the two apart"
)
AS_KILL = "it is the step of `kill`: its session expires, and no promise could tell the two apart"
NOTICED_LATER = "`notice_lost` does the same a step later: nobody is left who would answer"
WAITS_LONGER = "it waits until all that was taken is stored, which it is in the end"


def because(reason: str, *mutants: str) -> dict[str, str]:
    """One reason for several mutants."""
    return dict.fromkeys(mutants, reason)


SURVIVORS: Mapping[str, Mapping[str, str]] = {
    "GroupProtocol": {
        **because(
            NEVER,
            "doubt: negate `self.election.leads[b]`",
            "doubt: negate `self.seat == b`",
            "close: negate `self.client[m] != MemberState.OFF`",
            "kill: negate `self.client[m] != MemberState.OFF`",
            "kill: skip `self.forget(m)`",
            "appear: negate `not self.exists[p]`",
            "appear: skip `self.exists[p] = True`",
            "lose: skip `self.fail_future(m)`",
            "expire: negate `not self.is_gone(m)`",
            "expire: skip `self.evict(m)`",
            "session_time_out: negate `self.knows[m]`",
            "session_time_out: skip `self.knows[m] = False`",
        ),
        **because(
            LARGER,
            "on_join_follower: remove its fairness",
            "join_again: remove its fairness",
        ),
        **because(
            AS_LOSE,
            "notice_lost: drop `self.down[m] == GroupAnswer.NONE`",
            "notice_lost: drop `not self.joined[m]`",
            "notice_lost: drop `not self.synced[m]`",
        ),
        **because(
            AS_EXPIRE,
            "expire_gone: drop `self.is_gone(m)`",
            (
                "is_gone: drop `self.client[m] == MemberState.OFF or (not self.has_id[m] and "
                "self.down[m] != GroupAnswer.MEMBER_ID_REQUIRED)`"
            ),
            "is_gone: drop `not self.has_id[m]`",
        ),
        **because(AS_KILL, "close: skip `self.leave_group(m)`"),
        **because(NOTICED_LATER, "learn_member_id: skip `self.fail_future(m)`"),
        **because(WAITS_LONGER, "are_stored: drop `self.asks_for(m, p)`"),
    }
}
"""Each survivor, and why it is accepted."""

AS_CLOSE = (
    "it is a step of `close` as well, but disturbs nobody: it may happen for ever, with "
    "generations that rise beyond every bound, so that no exploration decides whether the group "
    "settles; of one step no promise could tell the two apart"
)
BY_THE_OTHER = (
    "it never happens, and the same is sent all the same: by the user's own commit, by the one at "
    "the end of a poll, or by the one right before JoinGroup; none of them has to come"
)
TOLD_IN_TIME = (
    "the group has settled before its user is told what is out of range: nobody else waits for that"
)
FORMS: Mapping[str, Mapping[str, str]] = {
    "choice": {
        **because(
            NEVER,
            "change_protocols: `any((a in assignors) != self.supports[m, a] for a in Assignor)` "
            "becomes `all((a in assignors) != self.supports[m, a] for a in Assignor)`",
        ),
        **because(AS_KILL, "be_refused: skip `self.leave_group(m)`"),
        **because(
            AS_CLOSE,
            "be_refused: skip `self.takes(m, GroupAnswer.INCONSISTENT_GROUP_PROTOCOL)`",
        ),
    },
    "administered": {},
    "positions": {
        **because(
            NEVER,
            "lose_offset_fetch: negate `self.fetch[m] != OffsetFetch.NONE`",
            "lose_offset_fetch: skip `self.drop_fetch(m)`",
        ),
        **because(
            BY_THE_OTHER,
            "commit: negate `self.ready[m]`",
            "commit: negate `not self.up[m]`",
            "commit: skip `self.send_commit(m)`",
            "maybe_auto_commit_offsets_async: negate `self.ready[m]`",
            "maybe_auto_commit_offsets_async: negate `not self.up[m]`",
            "maybe_auto_commit_offsets_async: skip `self.send_commit(m)`",
        ),
        **because(TOLD_IN_TIME, "report_out_of_range: remove its fairness"),
    },
}
"""Likewise for each form, of the mistakes in what it does otherwise."""
