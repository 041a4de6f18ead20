"""
Mistakes in the self-rebalancing consumers that no promise notices, and why they may live.

`herdproof mutate self_rebalancing` puts mistakes into the spec, one at a time, and explores each
with 2 members, 1 partition and 1 fault. Most break a promise. Those below do not, and each has its
reason: mostly the promise that is missing. What the contract owes is about who consumes, from where
on, and that the group settles; a rebalance too many, or state that nobody reads any more, cost
time. The promises that the reasons name are words: none of them is written down, or tried.
"""

from __future__ import annotations

from collections.abc import Mapping

LARGER = "a promise fails with 2 members, 2 partitions and 1 fault"
UNBOUNDED = (
    "it goes on for ever, beyond every bound, and breaks no promise up to there; a promise "
    "that nobody rebalances or fetches without a reason would kill it"
)

PLANS = (
    "a step promise that a plan is of what was read, and of nothing else, would kill it; "
    "whatever is planned is safe, and who plans wrongly is told of a change, or gets nothing"
)
ORDER = (
    "an always promise that threads are ranked from 0 on without a gap would kill it; only "
    "the order of ranks matters"
)
SUBSCRIBES = "a step promise that who registers wants something, whatever it is, would kill it"
IMPLIED = (
    "it changes nothing: what it asks for follows from the rest, where it is asked (the "
    "lemmas say so), or what it leaves undone is done elsewhere"
)
WAITS = (
    "a step promise that a claim waits while a node stands in its way, and no longer, would "
    "kill it; a claim that is tried too early is refused again, and one that waits in vain "
    "begins anew"
)
CLEAN = (
    "an always promise that nothing is left of an attempt, a position or a process that is "
    "over would kill it; nobody reads it any more before it is written anew"
)
TOO_MANY = (
    "a step promise that a flag is set, and taken, only for a change that was watched would "
    "kill it; a rebalance too many costs time"
)
WORLD = (
    "a promise of the world, or of its users, would kill it: when consumers are closed, "
    "killed and cut off, when operations fail, and when partitions and records appear; what "
    "is promised holds whenever that is"
)
ONE_BY_ONE = (
    "a step promise that versions are counted one by one would kill it; only their order matters"
)
LOG = (
    "a step promise that just what the log has is fetched, one record after the other, by who "
    "owns it, would kill it; what was fetched counts only once it is finished"
)
CLAIMS = (
    "a step promise that who claims reaches ZooKeeper, and learns its version at once, would "
    "kill it; what it does not learn it finds by itself, and what it claims too early it may "
    "release"
)
HANDS_OVER = (
    "a step promise that who is closed has stored how far it is would kill it; what was "
    "finished is delivered once more"
)

SURVIVORS: Mapping[str, str] = {
    (
        "lease_is_over: `all(not self.fetching[m, p] for p in Partition)` becomes `any(not "
        "self.fetching[m, p] for p in Partition)`"
    ): LARGER,
    "drags_in: drop `changed != m`": PLANS,
    "is_first: drop `self.seen[m, p]`": PLANS,
    "would_be_first: drop `self.interest[m, p]`": LARGER,
    "would_be_first: drop `not self.registered[c]`": PLANS,
    "would_be_first: drop `not self.interest[c, p]`": LARGER,
    "holds: drop `self.token[m, p] > 0`": IMPLIED,
    "holds: `self.token[m, p] > 0` becomes `self.token[m, p] >= 0`": IMPLIED,
    "in_doubt: drop `self.planned[m, p]`": IMPLIED,
    (
        "has_all: `all(not self.planned[m, p] or self.token[m, p] > 0 for p in Partition)` "
        "becomes `any(not self.planned[m, p] or self.token[m, p] > 0 for p in Partition)`"
    ): LARGER,
    "close_fetchers_for_queues: skip `self.fetched[m, p] = self.consumed[m, p]`": CLEAN,
    "fail_and_back_off: skip `self.attempts[m] = min(self.attempts[m] + 1, RETRIES)`": CLEAN,
    "fail_and_back_off: `self.attempts[m] + 1` becomes `self.attempts[m] + 2`": CLEAN,
    "fail_and_back_off: `self.attempts[m] + 1` becomes `self.attempts[m] + 0`": CLEAN,
    "fail_and_back_off: skip `self.seen[m, p] = False`": CLEAN,
    "fail_and_back_off: skip `self.waits[m, p] = False`": WAITS,
    "create_owner: `self.version[p] + 1` becomes `self.version[p] + 2`": ONE_BY_ONE,
    "end_session: skip `self.watches_ids[m] = False`": TOO_MANY,
    "end_session: skip `self.watches_topics[m] = False`": TOO_MANY,
    "end_session: skip `self.due[m] = False`": TOO_MANY,
    "end_session: drop `self.watches_ids[c]`": TOO_MANY,
    "end_session: drop `self.drags_in(m, c)`": IMPLIED,
    "end_session: skip `self.watches_ids[c] = False`": TOO_MANY,
    (
        "end_session: skip `self.waits[c, p] = self.waits[c, p] and self.owner[p] is not "
        "None and (c != m)`"
    ): WAITS,
    "end_session: drop `self.waits[c, p]`": WAITS,
    "end_session: drop `self.owner[p] is not None`": WAITS,
    "end_session: drop `c != m`": WAITS,
    (
        "threads_in_order: drop `all(order[m] == 0 or any(order[c] + 1 == order[m] for c "
        "in Member) for m in Member)`"
    ): ORDER,
    (
        "threads_in_order: negate `all(order[m] == 0 or any(order[c] + 1 == order[m] for c "
        "in Member) for m in Member)`"
    ): ORDER,
    (
        "threads_in_order: `all(order[m] == 0 or any(order[c] + 1 == order[m] for c in "
        "Member) for m in Member)` becomes `any(order[m] == 0 or any(order[c] + 1 == "
        "order[m] for c in Member) for m in Member)`"
    ): ORDER,
    "threads_in_order: `order[m] == 0` becomes `order[m] == 1`": ORDER,
    "threads_in_order: `order[c] + 1` becomes `order[c] + 2`": ORDER,
    "threads_in_order: `order[c] + 1` becomes `order[c] + 0`": ORDER,
    "register: drop `any(p in wanted for p in Partition)`": SUBSCRIBES,
    (
        "register: `any(p in wanted for p in Partition)` becomes `all(p in wanted for p in "
        "Partition)`"
    ): SUBSCRIBES,
    "shutdown: drop `self.session[m] == Session.CONNECTED`": WORLD,
    "shutdown: negate `self.session[m] == Session.CONNECTED`": WORLD,
    (
        "shutdown: drop `self.phase[m] == Rebalance.RESTING or self.phase[m] == "
        "Rebalance.BACKING_OFF or self.is_waiting(m)`"
    ): WORLD,
    (
        "shutdown: negate `self.phase[m] == Rebalance.RESTING or self.phase[m] == "
        "Rebalance.BACKING_OFF or self.is_waiting(m)`"
    ): WORLD,
    "shutdown: drop `self.phase[m] == Rebalance.RESTING`": WORLD,
    "shutdown: drop `self.phase[m] == Rebalance.BACKING_OFF`": WORLD,
    "shutdown: drop `self.is_waiting(m)`": WORLD,
    "shutdown: skip `self.submit(m)`": HANDS_OVER,
    (
        "kill: drop `self.session[m] == Session.CONNECTED or self.session[m] == "
        "Session.SUSPENDED`"
    ): WORLD,
    (
        "kill: negate `self.session[m] == Session.CONNECTED or self.session[m] == "
        "Session.SUSPENDED`"
    ): WORLD,
    "kill: drop `self.session[m] == Session.CONNECTED`": WORLD,
    "kill: drop `self.session[m] == Session.SUSPENDED`": WORLD,
    "appear: drop `not self.exists[p]`": WORLD,
    "appear: negate `not self.exists[p]`": WORLD,
    "appear: skip `self.exists[p] = True`": WORLD,
    "appear: drop `self.watches_topics[m]`": TOO_MANY,
    "appear: drop `self.interest[m, p]`": WORLD,
    "appear: skip `self.watches_topics[m] = False`": TOO_MANY,
    "cut: drop `self.session[m] == Session.CONNECTED`": WORLD,
    "suspend: remove its fairness": WORLD,
    "suspend: drop `any(self.fetching[m, p] for p in Partition)`": IMPLIED,
    "suspend: negate `any(self.fetching[m, p] for p in Partition)`": WORLD,
    (
        "suspend: `any(self.fetching[m, p] for p in Partition)` becomes "
        "`all(self.fetching[m, p] for p in Partition)`"
    ): IMPLIED,
    "suspend: skip `self.close_fetchers_for_queues(m)`": WORLD,
    "expire: negate `self.session[m] == Session.SUSPENDED`": UNBOUNDED,
    "expire: drop `self.session[m] == Session.SUSPENDED`": UNBOUNDED,
    "handle_new_session: drop `self.session[m] == Session.EXPIRED`": UNBOUNDED,
    "handle_new_session: negate `self.session[m] == Session.EXPIRED`": UNBOUNDED,
    "handle_new_session: skip `self.close_fetchers_for_queues(m)`": IMPLIED,
    "handle_new_session: skip `self.seen[m, p] = False`": CLEAN,
    "handle_new_session: skip `self.planned[m, p] = False`": CLEAN,
    "close_fetchers: drop `self.session[m] == Session.CONNECTED`": TOO_MANY,
    (
        "close_fetchers: drop `self.phase[m] == Rebalance.BACKING_OFF or (self.due[m] and "
        "(self.phase[m] == Rebalance.RESTING or self.is_waiting(m)))`"
    ): UNBOUNDED,
    (
        "close_fetchers: negate `self.phase[m] == Rebalance.BACKING_OFF or (self.due[m] "
        "and (self.phase[m] == Rebalance.RESTING or self.is_waiting(m)))`"
    ): UNBOUNDED,
    "close_fetchers: drop `self.due[m]`": UNBOUNDED,
    "close_fetchers: drop `self.phase[m] == Rebalance.RESTING or self.is_waiting(m)`": TOO_MANY,
    "close_fetchers: skip `self.due[m] = False`": UNBOUNDED,
    "close_fetchers: skip `self.waits[m, p] = False`": WAITS,
    "release: drop `not any(self.in_doubt(m, p) for p in Partition)`": LARGER,
    (
        "release: `any(self.in_doubt(m, p) for p in Partition)` becomes "
        "`all(self.in_doubt(m, p) for p in Partition)`"
    ): LARGER,
    "release: drop `self.owner[p] is not None`": IMPLIED,
    "release: skip `self.fetched[m, p] = 0`": CLEAN,
    "release: `self.fetched[m, p] = 0` becomes `self.fetched[m, p] = 1`": CLEAN,
    "release: skip `self.consumed[m, p] = 0`": CLEAN,
    "release: skip `self.planned[m, p] = False`": CLEAN,
    (
        "read_ids: `all(self.agrees(m, p, p in mine) for p in Partition)` becomes "
        "`any(self.agrees(m, p, p in mine) for p in Partition)`"
    ): PLANS,
    "read_ids: skip `self.seen[m, p] = False`": CLEAN,
    "claim: skip `self.token[m, p] = self.version[p]`": CLAIMS,
    "refuse_claim: skip `self.may_claim(m, p)`": CLAIMS,
    "refuse_claim: drop `self.owner[p] != m`": CLAIMS,
    "swallow_claim: skip `self.session[m] = Session.SUSPENDED`": WORLD,
    "recall: drop `self.session[m] == Session.CONNECTED`": IMPLIED,
    (
        "recall: drop `self.phase[m] == Rebalance.CLAIMING or self.phase[m] == "
        "Rebalance.RELEASING`"
    ): IMPLIED,
    "recall: drop `self.phase[m] == Rebalance.RELEASING`": LARGER,
    "start_fetchers: skip `self.attempts[m] = 0`": CLEAN,
    "start_fetchers: `self.attempts[m] = 0` becomes `self.attempts[m] = 1`": CLEAN,
    (
        "fail_attempt: drop `self.session[m] == Session.CONNECTED or self.session[m] == "
        "Session.SUSPENDED`"
    ): WORLD,
    "fail_attempt: drop `self.session[m] == Session.SUSPENDED`": WORLD,
    "fail_attempt: negate `self.phase[m] != Rebalance.RESTING`": WORLD,
    "fail_attempt: drop `self.phase[m] != Rebalance.RESTING`": WORLD,
    "fail_attempt: drop `self.phase[m] != Rebalance.BACKING_OFF`": WORLD,
    "produce: drop `self.exists[p]`": WORLD,
    "produce: negate `self.exists[p]`": WORLD,
    "produce: skip `self.end[p] = self.end[p] + 1`": WORLD,
    "produce: `self.end[p] + 1` becomes `self.end[p] + 2`": WORLD,
    "produce: `self.end[p] + 1` becomes `self.end[p] + 0`": WORLD,
    "pull: negate `self.fetching[m, p]`": LOG,
    "pull: drop `self.fetching[m, p]`": LOG,
    "pull: drop `self.fetched[m, p] == self.consumed[m, p]`": CLEAN,
    "pull: drop `self.fetched[m, p] < self.end[p]`": UNBOUNDED,
    (
        "pull: `self.fetched[m, p] < self.end[p]` becomes `self.fetched[m, p] <= "
        "self.end[p]`"
    ): LOG,
    "pull: `self.fetched[m, p] + 1` becomes `self.fetched[m, p] + 2`": LOG,
    "finish: drop `self.fetching[m, p]`": IMPLIED,
    "finish: drop `self.consumed[m, p] < self.fetched[m, p]`": IMPLIED,
    (
        "finish: `self.consumed[m, p] < self.fetched[m, p]` becomes `self.consumed[m, p] "
        "<= self.fetched[m, p]`"
    ): IMPLIED,
    "commit: drop `self.session[m] == Session.CONNECTED`": IMPLIED,
    "commit: skip `self.submit(m)`": WORLD,
    "may_claim: skip `self.does(m, Rebalance.CLAIMING)`": CLAIMS,
    "may_claim: drop `self.token[m, p] == 0`": CLAIMS,
    "may_claim: drop `not self.waits[m, p]`": WAITS,
    "is_waiting: drop `self.phase[m] == Rebalance.CLAIMING`": CLAIMS,
    "is_waiting: drop `any(self.waits[m, p] for p in Partition)`": WAITS,
    (
        "is_waiting: `any(self.waits[m, p] for p in Partition)` becomes `all(self.waits[m, "
        "p] for p in Partition)`"
    ): WAITS,
    "begin_session: drop `self.watches_ids[c]`": TOO_MANY,
    "begin_session: drop `self.drags_in(m, c)`": CLAIMS,
    "begin_session: skip `self.watches_ids[c] = False`": TOO_MANY,
    (
        "begin_at_the_stored_offsets: skip `self.fetched[m, p] = self.committed[p] if "
        "self.planned[m, p] else 0`"
    ): LOG,
    "begin_at_the_stored_offsets: negate `self.planned[m, p]`": LOG,
    (
        "begin_at_the_stored_offsets: `self.fetched[m, p] = self.committed[p] if "
        "self.planned[m, p] else 0` becomes `self.fetched[m, p] = self.committed[p] if "
        "self.planned[m, p] else 1`"
    ): LOG,
    "leave: skip `self.session[m] = Session.NONE`": CLEAN,
    "leave: skip `self.interest[m, p] = False`": CLAIMS,
    "forget: skip `self.due[m] = False`": CLEAN,
    "forget: skip `self.phase[m] = Rebalance.RESTING`": CLEAN,
    "forget: skip `self.attempts[m] = 0`": CLEAN,
    "forget: `self.attempts[m] = 0` becomes `self.attempts[m] = 1`": CLEAN,
    "forget: skip `self.seen[m, p] = False`": CLEAN,
    "forget: skip `self.planned[m, p] = False`": CLEAN,
    "forget: skip `self.token[m, p] = 0`": CLEAN,
    "forget: skip `self.registry[m, p] = False`": CLEAN,
    "forget: skip `self.fetched[m, p] = 0`": CLEAN,
    "forget: `self.fetched[m, p] = 0` becomes `self.fetched[m, p] = 1`": CLEAN,
    "forget: skip `self.consumed[m, p] = 0`": CLEAN,
    "forget: skip `self.waits[m, p] = False`": WAITS,
}  # fmt: skip
"""Each survivor, and why it is accepted."""
