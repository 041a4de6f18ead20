"""
Habits of the draft (`004`, with the facts of Kafka 0.8), and other mistakes, one function each.

Each replaces the action or the part of an action that it is named for in `flaws.py`.
"""

from __future__ import annotations

from herdspec import require
from herdspec.language.surface import action, weak
from herdspec.protocols.self_rebalancing.spec import (
    RETRIES,
    Member,
    Partition,
    Rebalance,
    SelfRebalancing,
    Session,
)

# ── Sessions ────────────────────────────────────────────────────────────────────────────────


def nobody_keeps_a_lease(self: SelfRebalancing, m: Member) -> bool:
    """A session may end under a consumer that still delivers."""
    return True


def go_on_with_a_new_session(self: SelfRebalancing, m: Member) -> None:
    """handleNewSession: {m} registers again, and will rebalance; what it does, it goes on with."""
    require(self.session[m] == Session.EXPIRED)
    self.due[m] = True
    self.begin_session(m)


def reconnect_and_go_on(self: SelfRebalancing, m: Member) -> None:
    """{m} finds ZooKeeper again in time."""
    require(self.session[m] == Session.SUSPENDED)
    self.session[m] = Session.CONNECTED


# ── Watches ─────────────────────────────────────────────────────────────────────────────────


def read_topics_unwatched(self: SelfRebalancing, m: Member) -> None:
    """(3) {m} reads which partitions there are."""
    self.does(m, Rebalance.TOPICS)
    for p in Partition:
        self.seen[m, p] = self.exists[p]
    self.phase[m] = Rebalance.IDS


def read_ids_unwatched(self: SelfRebalancing, m: Member, mine: set[Partition]) -> None:
    """(3) {m} reads who is in the group, and plans for all: {mine} are its own."""
    self.does(m, Rebalance.IDS)
    require(all(self.agrees(m, p, p in mine) for p in Partition))
    for p in Partition:
        self.planned[m, p] = p in mine
        self.seen[m, p] = False
    self.phase[m] = Rebalance.CLAIMING


@action(fair=weak)
def renew_watches(self: SelfRebalancing, m: Member) -> None:
    """{m} sets the watches again that have fired."""
    require(self.session[m] == Session.CONNECTED)
    require(not self.watches_ids[m] or not self.watches_topics[m])
    self.watches_ids[m] = True
    self.watches_topics[m] = True


def only_like_minded(self: SelfRebalancing, changed: Member, m: Member) -> bool:
    """Only who has the very same subscription rebalances with whoever comes or goes."""
    return changed != m and all(self.interest[m, p] == self.interest[changed, p] for p in Partition)


# ── Offsets ─────────────────────────────────────────────────────────────────────────────────


def read_ids_before_offsets(self: SelfRebalancing, m: Member, mine: set[Partition]) -> None:
    """(3) {m} reads who is in the group, watches that, and plans for all: {mine} are its."""
    self.does(m, Rebalance.IDS)
    require(all(self.agrees(m, p, p in mine) for p in Partition))
    self.watches_ids[m] = True
    for p in Partition:
        self.planned[m, p] = p in mine
        self.seen[m, p] = False
    self.phase[m] = Rebalance.OFFSETS


def read_ids_unwatched_before_offsets(
    self: SelfRebalancing, m: Member, mine: set[Partition]
) -> None:
    """(3) {m} reads who is in the group, and plans for all: {mine} are its own."""
    self.does(m, Rebalance.IDS)
    require(all(self.agrees(m, p, p in mine) for p in Partition))
    for p in Partition:
        self.planned[m, p] = p in mine
        self.seen[m, p] = False
    self.phase[m] = Rebalance.OFFSETS


def read_offsets_before_claims(self: SelfRebalancing, m: Member) -> None:
    """(3) {m} reads how far each partition of its plan is consumed."""
    self.does(m, Rebalance.OFFSETS)
    self.begin_at_the_stored_offsets(m)
    self.phase[m] = Rebalance.CLAIMING


def start_once_all_is_claimed(self: SelfRebalancing, m: Member) -> None:
    """(5) updateFetcher: {m} updates topicRegistry, and pulls from all that is in it."""
    self.does(m, Rebalance.CLAIMING)
    require(self.has_all(m))
    for p in Partition:
        self.registry[m, p] = self.planned[m, p]
        self.fetching[m, p] = self.planned[m, p]
    self.attempts[m] = 0
    self.phase[m] = Rebalance.RESTING


def any_commit(self: SelfRebalancing, m: Member, p: Partition) -> bool:
    """An offset is written, whoever's it is."""
    return True


def fetched_offset(self: SelfRebalancing, m: Member, p: Partition) -> int:
    """The offset that is submitted: how far was fetched, or handed to the application."""
    return self.fetched[m, p]


def submit_nothing(self: SelfRebalancing, m: Member) -> None:
    """(1) {m} leaves its offsets to the periodic submission."""
    self.does(m, Rebalance.COMMITTING)
    self.phase[m] = Rebalance.RELEASING


# ── Ownership ───────────────────────────────────────────────────────────────────────────────


def what_it_believes_to_own(self: SelfRebalancing, m: Member, p: Partition) -> bool:
    """The owner node of whatever is in topicRegistry is deleted, whoever's it is."""
    return self.registry[m, p]


def what_it_believes_to_own_or_claimed(self: SelfRebalancing, m: Member, p: Partition) -> bool:
    """So it is, and so are those of a failed attempt."""
    return self.registry[m, p] or self.holds(m, p)


def what_it_planned(self: SelfRebalancing, m: Member, p: Partition) -> bool:
    """The plan enters topicRegistry before anything is owned, and all in it is deleted."""
    return self.registry[m, p] or self.planned[m, p]


def nothing_is_in_doubt(self: SelfRebalancing, m: Member, p: Partition) -> bool:
    """Nobody asks whose a node is that stands in the way."""
    return False


def refuse_even_by_itself(self: SelfRebalancing, m: Member, p: Partition) -> None:
    """(4) {m} is refused {p}, which has an owner, and waits for that node to go."""
    self.may_claim(m, p)
    require(self.owner[p] is not None)
    self.waits[m, p] = True


def refuse_and_back_off(self: SelfRebalancing, m: Member, p: Partition) -> None:
    """(4) {m} is refused {p}, which has another owner: the attempt fails."""
    self.may_claim(m, p)
    require(self.owner[p] is not None and self.owner[p] != m)
    self.fail_and_back_off(m)


def refuse_and_forget(self: SelfRebalancing, m: Member, p: Partition) -> None:
    """(4) {m} is refused {p}, which has an owner: the attempt fails, and what it claimed stays."""
    self.may_claim(m, p)
    require(self.owner[p] is not None)
    self.fail_and_back_off(m)
    for q in Partition:
        self.planned[m, q] = False
        self.token[m, q] = 0


def close_while_retries_last(self: SelfRebalancing, m: Member) -> None:
    """(1) {m} takes the flag, or tries once more while retries last: it closes its fetchers."""
    require(self.session[m] == Session.CONNECTED)
    gave_up = self.phase[m] == Rebalance.BACKING_OFF and self.attempts[m] == RETRIES
    require(
        (self.phase[m] == Rebalance.BACKING_OFF and not gave_up)
        or (self.due[m] and (self.phase[m] == Rebalance.RESTING or gave_up or self.is_waiting(m)))
    )
    if self.phase[m] != Rebalance.BACKING_OFF or gave_up:
        self.due[m] = False
        self.attempts[m] = 0
    self.close_fetchers_for_queues(m)
    self.phase[m] = Rebalance.COMMITTING
    for p in Partition:
        self.waits[m, p] = False


# ── The order of the steps ──────────────────────────────────────────────────────────────────


def take_the_flag_and_pull_on(self: SelfRebalancing, m: Member) -> None:
    """(1) {m} takes the flag, or tries once more; its fetchers are closed later."""
    require(self.session[m] == Session.CONNECTED)
    require(
        self.phase[m] == Rebalance.BACKING_OFF
        or (self.due[m] and (self.phase[m] == Rebalance.RESTING or self.is_waiting(m)))
    )
    self.due[m] = False
    self.phase[m] = Rebalance.COMMITTING
    for p in Partition:
        self.waits[m, p] = False


def read_topics_and_close(self: SelfRebalancing, m: Member) -> None:
    """(3) {m} closes its fetchers, and reads which partitions there are, and watches them."""
    self.does(m, Rebalance.TOPICS)
    self.close_fetchers_for_queues(m)
    self.watches_topics[m] = True
    for p in Partition:
        self.seen[m, p] = self.exists[p]
    self.phase[m] = Rebalance.IDS


def nothing_need_be_claimed(self: SelfRebalancing, m: Member) -> bool:
    """Pulling starts whatever is claimed."""
    return True
