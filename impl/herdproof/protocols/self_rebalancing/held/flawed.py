"""
The connector's known mistakes, which the checkers must catch: each replaces a part of the core.

Each stands under its name in `FLAWS`; the spec has a variant of the same name
(`herdspec.protocols.self_rebalancing.flaws`). Most are habits of the draft.

    Connector = connector_with(frozenset({"zombie_commit"}))
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from herdproof.conformance.flawed import flawed
from herdproof.consuming.assignment import Partition
from herdproof.consuming.events import Consumed
from herdproof.consuming.offsets import Offset
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.context import Round, Then
from herdproof.protocols.self_rebalancing.core.offsets import OffsetCommits
from herdproof.protocols.self_rebalancing.core.ownership import Ownership, PartitionClaim
from herdproof.protocols.self_rebalancing.core.phases import NEXT, RebalancePhase, Transitions
from herdproof.protocols.self_rebalancing.core.reader import ContextReader
from herdproof.protocols.self_rebalancing.core.rebalance import ZKRebalanceListener
from herdproof.protocols.self_rebalancing.simulated.member import SimulatedMember
from herdproof.zookeeper.operations import (
    ANY_VERSION,
    Answer,
    Children,
    Delete,
    Exists,
    Found,
    Get,
    Multi,
    Refusal,
    Set,
    Stat,
    Why,
)

FOR_EVER_MS = 2**62

ASKED_ANEW = (RebalancePhase.RELEASING, RebalancePhase.TOPICS, RebalancePhase.IDS)
MISTAKEN: Transitions = {
    **NEXT,
    **{phase: NEXT[phase] | {phase} for phase in ASKED_ANEW},
    RebalancePhase.IDS: NEXT[RebalancePhase.IDS] | {RebalancePhase.IDS, RebalancePhase.OFFSETS},
    RebalancePhase.OFFSETS: (
        NEXT[RebalancePhase.OFFSETS] | {RebalancePhase.OFFSETS, RebalancePhase.CLAIMING}
    ),
}
"""The phases that may follow each, where the order of the steps is the mistake."""


class SplitBrain(ConsumerConnector):
    """It keeps no lease: cut off from ZooKeeper, it delivers on."""

    @property
    def delivers_until_ms(self) -> int:
        """Nothing ends it."""
        return FOR_EVER_MS

    def may_deliver(self, now_ms: int) -> bool:
        """Whatever time it is."""
        del now_ms
        return self.registry.is_fetching

    def _end_what_is_over(self) -> None:
        """Nothing is ever over."""

    def suspend(self) -> None:
        """Go on, until there is a new session."""


class StaleStart(ZKRebalanceListener):
    """It reads the offsets with the plan, before anything is owned."""

    transitions = MISTAKEN

    def add_ownership(self, own: dict[Partition, int]) -> None:
        """Read how far each partition of the plan is consumed; then claim."""
        self.enter(RebalancePhase.OFFSETS)
        self._own = own
        self.read_offsets()

    def read_offsets(self) -> None:
        """Before the claims; once everything is claimed, its offset was read before."""
        if self.phase is RebalancePhase.OFFSETS:
            claim = partial(super().add_ownership, self._own)
            self.offsets.read(dict.fromkeys(self._own, 0), claim)
            return
        for partition, token in self.owned.tokens().items():
            self.offsets.stored[partition].token = token
        self.start_fetchers()


class ZombieCommit(OffsetCommits):
    """It stores an offset whoever's the partition is."""

    def write(self, partition: Partition, offset: int) -> Multi:
        """The write, without a check."""
        stored = self.stored[partition]
        write = super().write(partition, offset).operations[-1]
        if stored.version is not None:
            write = Set(write.path, str(offset).encode(), ANY_VERSION)
        return Multi((write,))

    def _written(self, partition: Partition, answer: Answer) -> None:
        if answer == Refusal(Why.NODE_EXISTS, 0):
            self.stored[partition].version = 0
            self.stored[partition].writing = None
            self._go_on(partition)
            return
        refusal = Refusal(Why.NO_NODE, 1) if answer == Refusal(Why.NO_NODE, 0) else answer
        super()._written(partition, refusal)


class ZombieRelease(Ownership):
    """It deletes what it believes to own, whoever's it is."""

    former: Mapping[Partition, PartitionClaim] = {}

    def release(self, partition: Partition) -> Multi:
        """Delete the node, without a check."""
        return Multi((Delete(self._context.dirs.owner(partition), ANY_VERSION),))

    def forget(self) -> None:
        """A new session owns what the old one did, it believes."""
        self.former = {**self.former, **self.claims}
        super().forget()

    def release_all(self, then: Then) -> None:
        """Delete that, too."""
        self.claims = {**self.former, **self.claims}
        self.former = {}
        super().release_all(then)


class RegistryBeforeOwners(ZombieRelease):
    """It deletes whatever it has planned, claimed or not."""

    def release_all(self, then: Then) -> None:
        """Delete the node of each partition of the plan."""
        for claim in self.claims.values():
            claim.token = claim.token or -1
        super().release_all(then)


class LostWakeUp(ContextReader):
    """It reads first, and watches later: what changes in between it does not hear of."""

    def _list(self, round_: Round, path: str, handle: Any) -> None:
        self.watched.add(path)
        round_.ask(Children(path), partial(self._listed, round_, path, handle))

    def _get(self, round_: Round, path: str, understand: Any, what: Any) -> None:
        self.watched.add(path)
        round_.ask(Get(path), partial(self._got, round_, path, understand, what))

    def _await(self, round_: Round, path: str, again: Then, absent: Then) -> None:
        round_.ask(Exists(path), partial(self._awaited, again, absent))

    def renew_watches(self) -> None:
        """Leave the watches, whatever is there by now."""
        for path in sorted(self.watched):
            self._context.ask(Children(path, watch=True), ignore)
            self._context.ask(Exists(path, watch=True), ignore)


class WatchesLater(ZKRebalanceListener):
    """It renews its watches when it rests."""

    reader = LostWakeUp

    def start_fetchers(self) -> None:
        """Watch once fetchers run."""
        super().start_fetchers()
        assert isinstance(self.read, LostWakeUp)
        self.read.renew_watches()


class RetriesExhausted(ZKRebalanceListener):
    """A refused claim fails the attempt; after the last retry nothing more is tried."""

    def claims_wait(self) -> None:
        """An attempt that cannot have everything has failed."""
        self.fail_attempt("somebody owns what it planned")

    def fail_attempt(self, why: str) -> None:
        """Back off, or give up."""
        super().fail_attempt(why)
        if self.attempts >= max(1, self.context.settings.rebalance_max_retries):
            self.again_ms = FOR_EVER_MS

    def trigger(self) -> None:
        """Something has changed: it tries again, even if it had given up."""
        if self.phase is RebalancePhase.BACKING_OFF and self.again_ms == FOR_EVER_MS:
            self.attempts, self.again_ms = 0, self.context.now_ms
        super().trigger()


class SelfConflict(Ownership):
    """It never asks whether the node in its way is its own."""

    def _is_in_the_way(self, partition: Partition, stat: Stat) -> None:
        del stat
        self.waits[self._context.dirs.owner(partition)] = partition

    def _doubted(self, partition: Partition, round_: Round, answer: Answer) -> None:
        super()._doubted(partition, round_, Found(None))
        del answer


class ReleasedBeforeStopped(ZKRebalanceListener):
    """It gives its partitions back, and closes its fetchers later."""

    def close_fetchers(self, *, is_new_session: bool = False) -> None:
        """Only the step is told; fetchers run on."""
        fetching, self.registry.is_fetching = self.registry.is_fetching, False
        super().close_fetchers(is_new_session=is_new_session)
        self.registry.is_fetching = fetching

    def read_topics(self) -> None:
        """Nothing is owned any more; now fetchers are closed."""
        self.close_fetchers_for_queues()
        super().read_topics()


class PulledBeforeOwned(ZKRebalanceListener):
    """It starts its fetchers for all of its plan, claimed or not."""

    def claims_wait(self) -> None:
        """Others' nodes are in the way, and it starts all the same."""
        own = dict.fromkeys(self.owned.claims, 0)
        self.owned.waits.clear()
        self.enter(RebalancePhase.OFFSETS)
        self.offsets.read(own | self.owned.tokens(), self.start_fetchers)


class NoCommitAtClosing(ZKRebalanceListener):
    """It leaves its offsets to the periodic submission."""

    def commit_offsets(self) -> None:
        """(1) Nothing is submitted."""
        self.release()


class NewSessionGoesOn(ZKRebalanceListener):
    """In a new session it goes on with what it does, and rebalances later."""

    transitions = MISTAKEN

    def handle_new_session(self) -> None:
        """Go on with what it was amid; there is a reason to rebalance."""
        self.is_due = True
        self.may_begin = False

    def registered(self) -> None:
        """It asks anew what it had asked in the old session."""
        self.may_begin = True
        self.read.registered()
        amid: Mapping[RebalancePhase, Then] = {
            RebalancePhase.COMMITTING: self.commit_offsets, RebalancePhase.RELEASING: self.release,
            RebalancePhase.TOPICS: self.read_topics, RebalancePhase.IDS: self.read_ids,
            RebalancePhase.CLAIMING: self.claim_on, RebalancePhase.OFFSETS: self.read_offsets,
        }  # fmt: skip
        amid.get(self.phase, self.trigger)()

    def claim_on(self) -> None:
        """Take what is claimed for its own still."""
        self.owned.claim_of_plan([p for p, claim in self.owned.claims.items() if not claim.token])


class SuspendedForGood(ZKRebalanceListener):
    """Back in time, it takes its watches for granted, and what it had suspended for running."""

    def reconnected(self) -> None:
        """Rebalance only if an attempt was under way."""
        if self.phase is RebalancePhase.RESTING:
            self.may_begin = True
            self.is_due = False
        else:
            super().reconnected()


class FetchedForConsumed(SimulatedMember):
    """Its shell takes a record for consumed that was handed to the application."""

    def _deliver(self) -> None:
        """Hand it over, and count it."""
        super()._deliver()
        if self.held is not None:
            partition, offset, generation = self.held
            self.give(Consumed(Offset(*partition, offset + 1), generation))


FLAWS_OF_SHELLS: Mapping[str, type[SimulatedMember]] = {"fetched_for_consumed": FetchedForConsumed}
"""Flaws of the simulated member, by name."""


def ignore(answer: Answer) -> None:
    """Ignore what a watch was left for."""
    del answer


FLAWS: Mapping[str, type[Any]] = {
    "split_brain": SplitBrain,
    "stale_start": StaleStart,
    "zombie_commit": ZombieCommit,
    "zombie_release": ZombieRelease,
    "lost_wake_up": WatchesLater,
    "retries_exhausted": RetriesExhausted,
    "self_conflict": SelfConflict,
    "released_before_stopped": ReleasedBeforeStopped,
    "pulled_before_owned": PulledBeforeOwned,
    "no_commit_at_closing": NoCommitAtClosing,
    "registry_before_owners": RegistryBeforeOwners,
    "new_session_goes_on": NewSessionGoesOn,
    "suspended_for_good": SuspendedForGood,
}
"""Every mistake that a core can be made to have, by the part that has it."""


@cache
def connector_with(flaws: frozenset[str]) -> type[ConsumerConnector]:
    """The core with these mistakes; raises `ValueError` if one of them is not known."""
    return flawed(ConsumerConnector, flaws, FLAWS)
