"""
Ownership of partitions: claimed, waited for, released.

A claim is one transaction: it creates the partition's owner node, which lives as long as the
session, and raises the version of a persistent node of the partition. That version is the *token*
of whoever has claimed it; it never comes again, as the version of a node does that is created anew.
The owner node is written twice in it, so that its own version is 1: nothing is deleted that another
kind of member has created, whose nodes are written once.

A claim that is refused waits for the node in its way: a watch tells when it goes. A persistent one
is what a coordinator has left of the group (it has no members any more, or nobody here would
plan): it is deleted.

Source: `004` (steps 2 and 4 of the rebalancing operation); the tokens are *ours*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from herdproof.consuming.assignment import Partition
from herdproof.protocols.self_rebalancing.core.context import (
    ConnectorContext,
    Round,
    Then,
    ignore_answer,
    is_made,
    named,
    reason,
    told,
)
from herdproof.protocols.self_rebalancing.registries.context import ConsumerThreadId
from herdproof.zookeeper.operations import (
    ANY_VERSION,
    Answer,
    Changed,
    Check,
    Create,
    Data,
    Delete,
    Done,
    Exists,
    Found,
    Get,
    Multi,
    Refusal,
    Set,
    Stat,
    Why,
)

WRITTEN_TWICE = 1
"""The version of an owner node that a claim has created."""


@dataclass(slots=True)
class PartitionClaim:
    """A partition that the plan gives to a thread of this member."""

    thread: int
    token: int = 0
    """The version that the claim has made; 0: not (known to be) claimed."""
    is_asked: bool = False
    """A claim was sent that is not answered: the partition may be this session's."""


class Claimant(Protocol):
    """Who has the partitions claimed."""

    def read_offsets(self) -> None:
        """Everything is claimed."""

    def claims_wait(self) -> None:
        """Of what is not claimed, each claim waits for a node in its way."""

    def fail_attempt(self, why: str) -> None:
        """It cannot be claimed at present."""


class Ownership:
    """The partitions that this member owns, or is about to."""

    def __init__(self, context: ConnectorContext, claimant: Claimant) -> None:
        self._context = context
        self._claimant = claimant
        self.claims: dict[Partition, PartitionClaim] = {}
        self.waits: dict[str, Partition] = {}
        """By its path, of which partition the owner node is in the way."""
        self._open = 0
        self._trouble = ""

    def tokens(self) -> dict[Partition, int]:
        """The claimed partitions, each with its token."""
        return {p: claim.token for p, claim in self.claims.items() if claim.token}

    @property
    def is_waiting(self) -> bool:
        """Tells whether nothing but nodes in the way are waited for."""
        return bool(self.waits) and not self._open

    def cut_off(self) -> None:
        """The connection is lost, and with it every watch; claims under way are in doubt."""
        self.waits.clear()
        self._open = 0

    def forget(self) -> None:
        """The session is over, and what it owned is nobody's, or another's."""
        self.cut_off()
        self.claims.clear()

    # ── Claiming ────────────────────────────────────────────────────────────────────────────

    def claim_all(self, threads: Mapping[Partition, int]) -> None:
        """PartitionClaim these partitions for these threads; the claimant is told."""
        self.claims = {partition: PartitionClaim(thread) for partition, thread in threads.items()}
        self.claim_of_plan(threads)

    def claim_of_plan(self, partitions: Iterable[Partition]) -> None:
        """Claim these of what is planned; the claimant is told."""
        self.waits.clear()
        self._trouble = ""
        self._open = 1
        for partition in partitions:
            self._claim(partition)
        self._settle()

    def claim(self, partition: Partition, thread: ConsumerThreadId) -> Multi:
        """The transaction that makes a partition this session's."""
        dirs, data = self._context.dirs, str(thread).encode()
        owner = dirs.owner(partition)
        return Multi((
            Create(owner, data, ephemeral=True),
            Set(owner, data, 0),
            Set(dirs.claim(partition), data, ANY_VERSION),
        ))  # fmt: skip

    def token_of(self, answer: Done) -> int:
        """The token that an answered claim has made."""
        raised = answer.answers[-1]
        assert isinstance(raised, Changed), f"the claim's version was to be raised, not {raised}"
        return raised.stat.version

    def fired(self, path: str) -> bool:
        """A watch has fired: if on a node in the way, its partition is claimed again."""
        partition = self.waits.pop(path, None)
        if partition is None:
            return False
        self._open += 1
        self._claim(partition)
        self._settle()
        return True

    def _claim(self, partition: Partition) -> None:
        self._open += 1
        claim = self.claims[partition]
        claim.is_asked = True
        thread = ConsumerThreadId(self._context.consumer_id, claim.thread)
        self._context.step("claim", [named(partition)], number=self._context.next_number)
        self._context.ask(self.claim(partition, thread), partial(self._claimed, partition))

    def _claimed(self, partition: Partition, answer: Answer) -> None:
        claim = self.claims[partition]
        claim.is_asked = False
        if isinstance(answer, Done):
            claim.token = self.token_of(answer)
        self._answered(partition, told(answer))
        why = answer.why if isinstance(answer, Refusal) else None
        if why is Why.NODE_EXISTS:
            self._look(partition)
        elif why is Why.NO_NODE:
            self._prepare(partition)
        elif why is not None:
            self._trouble = f"{'-'.join(partition)} cannot be claimed: {reason(answer)}"
        self._settle()

    def _answered(self, partition: Partition, outcome: str) -> None:
        token = self.claims[partition].token
        self._context.step("answered", [named(partition)], token=token, outcome=outcome)

    def _prepare(self, partition: Partition) -> None:
        """Make the persistent nodes that a claim needs, and claim again."""
        self._open += 1
        dirs = self._context.dirs
        round_ = Round(self._context, self._settle)
        round_.make_parents(dirs.owner(partition), partial(self._prepared, partition, True))
        round_.make_parents(dirs.claim(partition), partial(self._prepared, partition, True))
        round_.ask(Create(dirs.claim(partition)), partial(self._prepared, partition, False))
        round_.close()

    def _prepared(self, partition: Partition, is_above: bool, answer: Answer) -> None:
        if not is_made(answer):
            self._trouble = f"{'-'.join(partition)} cannot be claimed: {reason(answer)}"
        elif not (is_above or self._trouble):
            self._claim(partition)

    def _look(self, partition: Partition) -> None:
        """A node is in the way: whose? And it is watched."""
        self._open += 1
        path = self._context.dirs.owner(partition)
        self._context.ask(Exists(path, watch=True), partial(self._looked, partition))

    def _looked(self, partition: Partition, answer: Answer) -> None:
        if isinstance(answer, Found) and answer.stat is None:
            self._claim(partition)
        elif isinstance(answer, Found) and answer.stat is not None:
            self._is_in_the_way(partition, answer.stat)
        else:
            self._trouble = f"the owner of {'-'.join(partition)} cannot be read: {reason(answer)}"
        self._settle()

    def _is_in_the_way(self, partition: Partition, stat: Stat) -> None:
        path = self._context.dirs.owner(partition)
        if stat.ephemeral_owner == self._context.session:
            self.claims[partition].is_asked = True
            self._open += 1
            self.recall(partition, Round(self._context, self._settle))
        elif not stat.ephemeral_owner:
            self._open += 1
            left = Multi(
                (Check(self._context.dirs.coordinated, ANY_VERSION), Delete(path, stat.version))
            )
            self._context.ask(left, partial(self._cleared, partition))
        else:
            self._context.step("refuse_claim", [named(partition)])
            self.waits[path] = partition

    def _cleared(self, partition: Partition, answer: Answer) -> None:
        """Go on once the nodes that a coordinator has left are gone, or were none that did."""
        if isinstance(answer, Done) or answer == Refusal(Why.NO_NODE, 1):
            self._claim(partition)
        elif answer == Refusal(Why.NO_NODE, 0):
            self._trouble = (
                f"{self._context.dirs.owner(partition)} is persistent, and no coordinator has ever "
                f"had this group: whoever has made it has to delete it"
            )
        else:
            self._trouble = f"{self._context.dirs.owner(partition)} is in the way: {reason(answer)}"
        self._settle()

    def _settle(self) -> None:
        """One thing less is under way; of the last the claimant is told what came of all."""
        self._open -= 1
        if self._open:
            return
        if self._trouble:
            self._claimant.fail_attempt(self._trouble)
        elif self.waits:
            self._claimant.claims_wait()
        else:
            self._claimant.read_offsets()

    # ── Releasing ───────────────────────────────────────────────────────────────────────────

    def release_all(self, then: Then) -> None:
        """
        Delete the owner nodes of this session.

        Of a claim whose answer was lost, first see whether it was done.
        """
        self.waits.clear()
        round_ = Round(self._context, partial(self._let_go, then))
        for partition, claim in self.claims.items():
            if claim.token:
                self._release(partition, round_)
            elif claim.is_asked:
                path = self._context.dirs.owner(partition)
                round_.ask(Exists(path), partial(self._doubted, partition, round_))
        round_.close()

    def release(self, partition: Partition) -> Multi:
        """The transaction that gives a partition back, if it is still this member's."""
        dirs = self._context.dirs
        return Multi((
            Check(dirs.claim(partition), self.claims[partition].token),
            Delete(dirs.owner(partition), WRITTEN_TWICE),
        ))  # fmt: skip

    def recall(self, partition: Partition, round_: Round) -> None:
        """The session itself owns the node: which token is it under?"""
        self._context.step("recall", [named(partition)], number=self._context.next_number)
        path = self._context.dirs.claim(partition)
        round_.ask(Get(path), partial(self._recalled, partition))
        round_.close()

    def _recalled(self, partition: Partition, answer: Answer) -> None:
        if isinstance(answer, Data):
            claim = self.claims[partition]
            claim.token, claim.is_asked = answer.stat.version, False
            self._answered(partition, "done")
        else:
            self._trouble = f"the claim of {'-'.join(partition)} cannot be read: {reason(answer)}"

    def _doubted(self, partition: Partition, round_: Round, answer: Answer) -> None:
        stat = answer.stat if isinstance(answer, Found) else None
        if stat is not None and stat.ephemeral_owner == self._context.session:
            path = self._context.dirs.claim(partition)
            self._context.step("recall", [named(partition)], number=self._context.next_number)
            round_.ask(Get(path), partial(self._recalled_to_release, partition, round_))

    def _recalled_to_release(self, partition: Partition, round_: Round, answer: Answer) -> None:
        self._recalled(partition, answer)
        if self.claims[partition].token:
            self._release(partition, round_)
        else:
            self._delete(partition, round_)

    def _release(self, partition: Partition, round_: Round) -> None:
        number = round_.ask(self.release(partition), partial(self._released, partition, round_))
        token = self.claims[partition].token
        self._context.step("release", [named(partition)], number=number, token=token)

    def _released(self, partition: Partition, round_: Round, answer: Answer) -> None:
        self._answered(partition, told(answer))
        if answer == Refusal(Why.NO_NODE, 0):
            self._delete(partition, round_)

    def _delete(self, partition: Partition, round_: Round) -> None:
        """Somebody has deleted the node that counts the claims: the owner node is still ours."""
        round_.ask(Delete(self._context.dirs.owner(partition), WRITTEN_TWICE), ignore_answer)

    def _let_go(self, then: Then) -> None:
        self.claims.clear()
        then()
