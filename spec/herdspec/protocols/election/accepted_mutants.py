"""
Mistakes in the election that none of its properties notices, and why they may live.

`herdproof mutate election` puts mistakes into the spec, one at a time, and explores each at 2
brokers and 1 fault. Most break a property. Those below do not, and each has its reason: mostly the
promise that is missing. Such promises are tested
(`properties/protocols/election/test_mutate_election.py`): each holds of the election, and kills the
mutants that it stands beside.

Nearly all of them are missing for one cause: what the election promises is safety through a fence,
and that it recovers. A node that goes too early, a look too many, a call that is dropped cost time
or an epoch, but no write. But for those that need two faults, and those that leave the bound, all
of them survive two and three faults, too. A reason is stale, and `mutate` fails, once its mutant is
killed or is no more.
"""

from __future__ import annotations

from collections.abc import Mapping

# ── Missing promises about the broker ───────────────────────────────────────────────────────

PAUSED = "a step promise that a paused broker does nothing would kill it"
ONE_CALL = (
    "a step promise that a call ends only by its answer, a broken connection or a restart would "
    "kill it; the call that it drops is asked again, or was needless"
)
LOOKS_AFTER_RECALL = (
    "a step promise that who recalls in vain and stands looks again would kill it; what it misses "
    "so, `due` remembers"
)
LOOKS_AFTER_REFUSAL = (
    "a step promise that who is refused and stands looks again would kill it; whoever was faster "
    "fired the watch of its first look, so that it looks anyway"
)
HANDLED = (
    "a promise that every inbox can come to be empty would kill it; the answer stays, and to "
    "handle it again changes nothing until the broker stands, resigns or begins anew"
)
ASKS_STANDING = (
    "a step promise that only who stands begins to look or to read would kill it; the call is "
    "needless, and its answer is let go"
)
DELETES_RESIGNED = "a step promise that only who has resigned asks to delete would kill it"
LINK_ORDER = "a step promise that a lost session is never merely suspended would kill it"
LINK_TRUE = (
    "a step promise that who learns that it is connected is connected would kill it; it learns of "
    "the broken connection, and reconnects"
)
NEW_PROCESS = (
    "a step promise that a new process has no call, watch or epoch of its former one would kill "
    "it; what is left over costs a call, or writes in an epoch that the broker did win"
)

# ── Missing promises about what ZooKeeper answers, and whom it tells ────────────────────────

DELETION_TOLD = (
    "a possibility that a broker is told of its deletion would kill it; asked once more, the "
    "deletion is refused, which ends the call as well"
)
TOLD_OF_CHANGE = (
    "a step promise that a watch tells only of a change that its server shows would kill it; "
    "what it tells too much or too early costs a look"
)
ABOUT_TO_SEE = (
    "a step promise that a watch tells nothing to who is about to see it would kill it; a look "
    "too many"
)
FIRES_ONCE = "a step promise that a watch which fires is gone would kill it; a look too many"
FIRES_AT_ALL = (
    "a step promise that every creation fires the watches would kill it; only when a node goes "
    "must anybody look"
)
LOOK_IS_DONE = (
    "a step promise that nothing is due right after a call to look was sent would kill it; a look "
    "too many"
)
AS_EXPIRE = (
    "without a watch of the broker's own, nothing can be told to it, and the step is just that of "
    "`expire`: no promise could tell the two apart"
)

# ── Missing promises about the node and the epoch ───────────────────────────────────────────

NODE_GOES = (
    "a step promise that a node goes only by its leader's call or with its session would kill it; "
    "who loses a node too early is fenced, and another is elected"
)
CREATED_WHERE_NONE = (
    "a step promise that a node is created only where none stands would kill it; whose node it "
    "was is fenced by the new epoch"
)
WINNER_HAS_READ = (
    "a step promise that who wins has asked for it, with the epoch before its own, would kill it; "
    "the epoch is counted up all the same"
)
COUNTED_BY_ONE = (
    "a step promise that the epoch is counted up by one, and only with a new node, would kill it"
)

# ── Possibilities that another way leads to ─────────────────────────────────────────────────

CUT_ALONE = (
    "a possibility that an idle, living session loses its connection would kill it; those that "
    "there are come about by an expired session, too"
)
REPLY_SWALLOWED = (
    "a possibility that the node stands and no reply is under way would kill it; a reply is lost "
    "by a cut after the answer, too"
)
EXPIRED_IDLE = (
    "a possibility that a session expires before there was any epoch would kill it; a session is "
    "lost by `expire_told`, too"
)
TOLD_AT_THE_END = (
    "a possibility that an expired leader's watch has fired behind its last look would kill it"
)

# ── What this size does not decide ──────────────────────────────────────────────────────────

NEEDS_TWO_FAULTS = "it needs two faults to show: with two, a property kills it"
NO_END = "epochs grow in it without any fault, so that no bound decides it; within the bound, "
BEYOND = "it leaves the bound of naturals; within naturals up to 4 it survives, and "


def because(reason: str, *mutants: str) -> dict[str, str]:
    """One reason for several mutants."""
    return dict.fromkeys(mutants, reason)


ELECTION = {
    **because(
        PAUSED,
        "stand: drop `not self.paused[b]`",
        "look: drop `not self.paused[b]`",
        "handle_look: drop `not self.paused[b]`",
        "handle_read: drop `not self.paused[b]`",
        "handle_create: drop `not self.paused[b]`",
    ),
    **because(
        ONE_CALL,
        "stand: negate `self.call[b] == Call.NONE`",
        "resign: drop `self.call[b] == Call.NONE`",
        "look: drop `self.call[b] == Call.NONE`",
        "handle_read: drop `self.answer[b] == Answer.EPOCH`",
        "handle_create: drop `self.answer[b] in (Answer.CREATED, Answer.REFUSED)`",
        "handle_reconnected: drop `self.link[b] == Link.SUSPENDED`",
    ),
    **because(LOOKS_AFTER_RECALL, "handle_look: drop `self.call[b] == Call.LOOK`"),
    **because(LOOKS_AFTER_REFUSAL, "handle_delete: drop `self.call[b] == Call.DELETE`"),
    **because(
        HANDLED,
        "handle_look: skip `self.finish(b)`",
        "handle_read: skip `self.finish(b)`",
        "look_again: skip `self.finish(b)`",
        "hold: skip `self.finish(b)`",
    ),
    **because(
        ASKS_STANDING,
        "handle_look: drop `self.stands[b]`",
        "handle_reconnected: negate `self.stands[b]`",
    ),
    **because(NO_END + DELETES_RESIGNED, "hold: negate `self.stands[b]`"),
    **because(LINK_ORDER, "handle_suspended: drop `self.link[b] == Link.CONNECTED`"),
    **because(LINK_TRUE, "handle_new_session: skip `self.connected[b] = True`"),
    **because(
        NEW_PROCESS,
        "restart: skip `self.watch[b] = False`",
        "restart: skip `self.finish(b)`",
        "restart: skip `self.token[b] = 0`",
    ),
    **because(DELETION_TOLD, "serve_delete: skip `self.answer[b] = Answer.DELETED`"),
    **because(
        TOLD_OF_CHANGE,
        "stand: drop `not self.stands[b]`",
        "catch_up: drop `self.behind[b]`",
        "catch_up: drop `changed`",
        "fire: drop `not self.behind[c]`",
    ),
    **because(ABOUT_TO_SEE, "heeds_watch: drop `not about_to_see`"),
    **because(
        FIRES_ONCE,
        "catch_up: skip `self.watch[b] = False`",
        "fire: skip `self.watch[c] = False`",
    ),
    **because(FIRES_AT_ALL, "create: skip `self.fire()`"),
    **because(
        LOOK_IS_DONE,
        "ask: negate `call == Call.LOOK`",
        "ask: skip `self.due[b] = False`",
    ),
    **because(AS_EXPIRE, "expire_told: drop `self.watch[b]`"),
    **because(
        NODE_GOES,
        "swallow_delete: skip `self.reaches(b, Call.DELETE)`",
        "expire: skip `self.alive[b] = False`",
        "expire: drop `self.holder == b`",
        "expire_told: negate `self.holder == b`",
        "expire_told: drop `self.holder == b`",
        "expire_told: skip `self.alive[b] = False`",
    ),
    **because(NO_END + NODE_GOES, "expire_orphan: drop `self.orphan`"),
    **because(
        CREATED_WHERE_NONE,
        "swallow_create: drop `self.accepts_create(b)`",
        "swallow_create: negate `self.accepts_create(b)`",
    ),
    **because(BEYOND + CREATED_WHERE_NONE, "accepts_create: drop `self.holder is None`"),
    **because(WINNER_HAS_READ, "accepts_create: drop `self.number[b] == self.epoch`"),
    **because(BEYOND + COUNTED_BY_ONE, "create: `self.epoch + 1` becomes `self.epoch + 2`"),
    **because(NO_END + COUNTED_BY_ONE, "create: skip `self.holder = b`"),
    **because(
        CUT_ALONE,
        "cut: negate `self.connected[b]`",
        "cut: skip `self.disconnect(b)`",
    ),
    **because(REPLY_SWALLOWED, "swallow_create: skip `self.create(b)`"),
    **because(EXPIRED_IDLE, "expire: negate `self.alive[b]`"),
    **because(
        TOLD_AT_THE_END,
        "expire_told: negate `not self.orphan`",
        "expire_told: negate `self.watch[b]`",
    ),
    **because(
        NEEDS_TWO_FAULTS,
        "resign: drop `self.leads[b]`",
        "catch_up: negate `self.watch[b] and changed`",
        "catch_up: skip `self.due[b] = self.due[b] or self.heeds_watch(b)`",
        "catch_up: drop `self.heeds_watch(b)`",
        "swallow_create: skip `self.reaches(b, Call.CREATE)`",
        "swallow_create: skip `self.disconnect(b)`",
        "expire_told: negate `not self.behind[b]`",
        "fall_behind: skip `self.view[b] = View.MINE`",
        "fall_behind: skip `self.view[b] = View.OTHERS`",
        "pause: negate `not self.paused[b]`",
        "pause: skip `self.paused[b] = True`",
    ),
}  # fmt: skip

SURVIVORS: Mapping[str, Mapping[str, str]] = {"Election": ELECTION}
"""The accepted mutants of each spec of this protocol: their ids, each with its reason."""
