"""
ZKRebalanceListener: whatever changes in the group or its topics makes the member rebalance.

A watch sets a flag; when no attempt is under way the flag is taken, and an attempt begins
(syncedRebalance). Its five steps, in this order: (1) close the fetchers and commit the offsets,
(2) release ownership, (3) read the snapshot and plan, (4) claim what the plan gives to this member,
and read the offsets of that, (5) start the fetchers. Each waits for ZooKeeper's answers to the one
before. What changes meanwhile sets the flag again, so nothing is forgotten: the attempt goes on
with what it has read, and another one follows; one that only waits for others' nodes makes way.

An attempt that fails backs off. As many failures in a row as there are retries are reported
(ConsumerRebalanceFailedException), and are no end: it tries on.

Source: `004` (Consumer rebalancing operations; rebalance()); Kafka 0.8.2, `ZKRebalancerListener`.
"""

from __future__ import annotations

from herdproof.consuming.assignment import Partition
from herdproof.consuming.events import Assigned, Revoked, StartFetchers, StopFetchers
from herdproof.protocols.self_rebalancing.core.context import ConnectorContext, Then, named
from herdproof.protocols.self_rebalancing.core.offsets import OffsetCommits
from herdproof.protocols.self_rebalancing.core.ownership import Ownership
from herdproof.protocols.self_rebalancing.core.phases import NEXT, RebalancePhase, Transitions
from herdproof.protocols.self_rebalancing.core.reader import ContextReader
from herdproof.protocols.self_rebalancing.core.registry import TopicRegistry
from herdproof.protocols.self_rebalancing.reports import What


class ZKRebalanceListener:
    """The rebalances of one member."""

    commits: type[OffsetCommits] = OffsetCommits
    ownership: type[Ownership] = Ownership
    reader: type[ContextReader] = ContextReader
    transitions: Transitions = NEXT

    def __init__(
        self, context: ConnectorContext, registry: TopicRegistry, register: Then
    ) -> None:  # fmt: skip
        self.context = context
        self.registry = registry
        self.register = register
        self.offsets = self.commits(context, self.commit_refused)
        self.owned = self.ownership(context, self)
        self.read = self.reader(context)
        self.phase = RebalancePhase.RESTING
        self.is_due = False
        """The flag that a watch sets: there is a reason to rebalance."""
        self.may_begin = False
        """The member is registered, and its connection stands."""
        self.is_closing = False
        """No further attempt is to begin."""
        self.attempts = 0
        """The number of attempts that have failed in a row."""
        self.again_ms = 0
        """While backing off: when to try again."""
        self.waits_since_ms: int | None = None
        """Since when claims have waited, unless that was reported."""
        self.revocations = 0
        """The number of `Revoked` that the user's listener has not returned from."""
        self._committed = False

    def enter(self, phase: RebalancePhase) -> None:
        """Another step is under way from now on."""
        assert phase in self.transitions[self.phase], (
            f"a member that is {self.phase.value} cannot be {phase.value} next"
        )
        self.phase = phase

    # ── Reasons ─────────────────────────────────────────────────────────────────────────────

    def trigger(self) -> None:
        """Something has changed."""
        self.is_due = True
        self.synced_rebalance()

    def fired(self, path: str) -> None:
        """A watch has fired."""
        if not self.owned.fired(path) and self.read.fired(path):
            self.trigger()

    def commit_refused(self) -> None:
        """Look anew: something that it believes is wrong."""
        self.is_due = True

    @property
    def may_be_left(self) -> bool:
        """Tells whether no step of an attempt is under way, but for waiting for others' nodes."""
        if self.phase is RebalancePhase.CLAIMING:
            return self.owned.is_waiting
        return self.phase in (RebalancePhase.RESTING, RebalancePhase.BACKING_OFF)

    def synced_rebalance(self) -> None:
        """Begin an attempt, if there is a reason to, and none is under way."""
        if self.is_closing or not (self.may_begin and self.may_be_left):
            return
        backs_off = self.phase is RebalancePhase.BACKING_OFF
        if self.context.now_ms >= self.again_ms if backs_off else self.is_due:
            self.rebalance()

    def rebalance(self) -> None:
        """One attempt, from its first step on."""
        self.is_due = False
        self.close_fetchers()
        self.enter(RebalancePhase.COMMITTING)
        self.commit_offsets()

    def fail_attempt(self, why: str) -> None:
        """The attempt cannot go on."""
        settings = self.context.settings
        self.context.step("fail_attempt", outcome=why)
        self.attempts += 1
        self.enter(RebalancePhase.BACKING_OFF)
        self.again_ms = self.context.now_ms + settings.rebalance_backoff_ms
        self.waits_since_ms = None
        self.owned.waits.clear()
        self.context.report(What.ATTEMPT_FAILED, why)
        if self.attempts == max(1, settings.rebalance_max_retries):
            self.context.report(
                What.REBALANCE_FAILED,
                f"{self.attempts} attempts in a row have failed, the last since {why}; it tries on",
            )

    # ── The session ─────────────────────────────────────────────────────────────────────────

    def cut_off(self) -> None:
        """The connection is lost: an attempt that was under way begins anew when it stands."""
        self.may_begin = False
        self.read.cut_off()
        self.owned.cut_off()
        self.offsets.cut_off()
        self.waits_since_ms = None

    def reconnected(self) -> None:
        """The session lives on, and every watch is gone."""
        if self.phase not in (RebalancePhase.RESTING, RebalancePhase.BACKING_OFF):
            self.context.step("fail_attempt", outcome="the connection was lost")
        if self.phase is not RebalancePhase.RESTING:
            self.enter(RebalancePhase.RESTING)
        self.is_due = self.may_begin = True
        self.synced_rebalance()

    def handle_new_session(self) -> None:
        """The session was lost, and with it all that it owned; there is a new one."""
        self.close_fetchers(is_new_session=True)
        self.owned.forget()
        self.enter(RebalancePhase.COMMITTING)
        self.is_due = self.may_begin = False

    def registered(self) -> None:
        """The member's node stands: in a new session, (1) was begun when the old one ended."""
        self.may_begin = True
        self.read.registered()
        if self.phase is RebalancePhase.COMMITTING:
            self.commit_offsets()
        else:
            self.trigger()

    # ── (1) ─────────────────────────────────────────────────────────────────────────────────

    def close_fetchers(self, *, is_new_session: bool = False) -> None:
        """(1) closeFetchersForQueues: nothing is fetched or delivered any more."""
        self.context.step("handle_new_session" if is_new_session else "close_fetchers")
        self.close_fetchers_for_queues()
        self.owned.waits.clear()
        self.waits_since_ms = None

    def close_fetchers_for_queues(self) -> None:
        """Close the fetchers and clear the queues, if they are not; the listener hears of it."""
        if not self.registry.is_fetching:
            return
        self.registry.is_fetching = False
        self.context.emit(StopFetchers(), Revoked(self.registry.partitions()))
        self.revocations += self.context.settings.listens

    def revocation_handled(self) -> None:
        """The user's listener has returned."""
        self.revocations = max(0, self.revocations - 1)
        if self.phase is RebalancePhase.COMMITTING and self.may_begin and not self._committed:
            self.commit_offsets()

    def commit_offsets(self) -> None:
        """(1) Submit the offsets of all that is consumed here; once the user's listener is back."""
        self._committed = not self.revocations
        if not self._committed:
            return
        self.context.step("commit_offsets")
        automatic = self.context.settings.auto_commit_enable
        self.offsets.store(self.registry.consumed() if automatic else {}, self.committed)

    def committed(self, is_stored: bool) -> None:
        """Go on: what could be stored is stored."""
        del is_stored  # what is refused is another's
        self.release()

    # ── (2) ─────────────────────────────────────────────────────────────────────────────────

    def release(self) -> None:
        """(2) Delete the owner nodes."""
        self.enter(RebalancePhase.RELEASING)
        self.owned.release_all(self.released)

    def released(self) -> None:
        """Nothing is owned any more."""
        self.registry.clear()
        self.read_topics()

    # ── (3) ─────────────────────────────────────────────────────────────────────────────────

    def read_topics(self) -> None:
        """(3) Read which partitions there are."""
        self.enter(RebalancePhase.TOPICS)
        self.read.read_topics(self.topics_read)

    def topics_read(self) -> None:
        """The partitions are known."""
        partitions = self.read.partitions.items()
        self.context.step("read_topics", [named((t, p)) for t, all_ in partitions for p in all_])
        self.read_ids()

    def read_ids(self) -> None:
        """(3) Read who is in the group."""
        self.enter(RebalancePhase.IDS)
        self.read.read_ids(self.ids_read)

    def ids_read(self) -> None:
        """Everything is read that the plan for the whole group follows from."""
        if self.read.trouble:
            self.fail_attempt(self.read.trouble)
            return
        if self.read.strangers or not self.read.sees_itself:
            self.enter(RebalancePhase.RESTING)
            self.may_begin = False
            self.register()
            return
        own = self.read.context().own()
        self.context.step("read_ids", [named(partition) for partition in own])
        self.add_ownership(own)

    # ── (4) ─────────────────────────────────────────────────────────────────────────────────

    def add_ownership(self, own: dict[Partition, int]) -> None:
        """(4) Claim the member's own part of the plan."""
        self.enter(RebalancePhase.CLAIMING)
        self.owned.claim_all(own)

    def claims_wait(self) -> None:
        """Others' nodes are in the way; if there is a reason to, a new plan is made."""
        if self.waits_since_ms is None:
            self.waits_since_ms = self.context.now_ms
        self.synced_rebalance()

    def read_offsets(self) -> None:
        """(4) Everything is claimed: from where on is it to be consumed?"""
        self.enter(RebalancePhase.OFFSETS)
        self.waits_since_ms = None
        self.offsets.read(self.owned.tokens(), self.start_fetchers)

    # ── (5) ─────────────────────────────────────────────────────────────────────────────────

    def start_fetchers(self) -> None:
        """(5) updateFetcher: put all partition infos into topicRegistry, and fetch them."""
        if self.context.now_ms >= self.context.until_ms:
            self.fail_attempt("ZooKeeper was silent for too long: the session may have ended")
            return
        offsets = {partition: stored.offset for partition, stored in self.offsets.stored.items()}
        threads = {partition: claim.thread for partition, claim in self.owned.claims.items()}
        self.registry.fill(offsets, threads)
        starts, queues = self.registry.starts(), self.registry.queues()
        self.context.step("read_offsets", starts)
        self.context.step("start_fetchers", starts)
        if starts:
            self.registry.is_fetching = True
            self.context.emit(
                StartFetchers(starts, self.registry.generation, queues),
                Assigned(self.registry.partitions()),
            )
        self.enter(RebalancePhase.RESTING)
        self.attempts = 0
        self.watch_bad_offsets()
        self.synced_rebalance()

    def watch_bad_offsets(self) -> None:
        """An offset that cannot be read is watched until it is mended."""
        for partition in self.owned.tokens().keys() - self.offsets.stored.keys():
            self.read.watched.add(self.context.dirs.offset(partition))

    # ── Time ────────────────────────────────────────────────────────────────────────────────

    @property
    def wakes_ms(self) -> int | None:
        """When it wants to be woken."""
        if self.phase is RebalancePhase.BACKING_OFF and self.may_begin:
            return self.again_ms
        return self.gives_up_ms

    @property
    def gives_up_ms(self) -> int | None:
        """When claims will have waited for as long as all retries would have taken."""
        if self.waits_since_ms is None or self.phase is not RebalancePhase.CLAIMING:
            return None
        settings = self.context.settings
        retries = max(1, settings.rebalance_max_retries)
        return self.waits_since_ms + retries * max(1_000, settings.rebalance_backoff_ms)

    def keep_time(self) -> None:
        """It is what time it is."""
        self.synced_rebalance()
        if self.gives_up_ms is not None and self.context.now_ms >= self.gives_up_ms:
            self.waits_since_ms = None
            names = ", ".join("-".join(p) for p in sorted(self.owned.waits.values()))
            self.context.report(
                What.REBALANCE_FAILED,
                f"others' owner nodes are in the way of {names} for longer than all retries take; "
                f"it waits on",
            )
