"""
Simulated runs, held against the contract's own properties as they happen.

    found = judged(seed=7)
    found.violations

What the eyes see fills the contract's fields, without a guard: a record that is delivered is
consumed, whatever anybody believes. Offsets are one more than told, 0 is "none stored". Of the
sentences, those are left out that speak of a coordinator, and that who has stopped says nothing: a
record that was taken before may be finished with after. What lies before a start that the reset has
found counts as finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from herdproof.consuming.assignment import Partition
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.consuming.offsets import Offset
from herdproof.pipeline.campaign.judged import BrokenPromise, JudgedRun
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.simulated.eyes import Eyes
from herdproof.protocols.self_rebalancing.simulated.member import SimulatedMember
from herdproof.protocols.self_rebalancing.simulated.random_runs import Trouble, WorldConfig
from herdproof.protocols.self_rebalancing.simulated.world import DEFAULT, Observes, RebalancingRun
from herdproof.simulator.tree import Nodes
from herdspec.check.observation.observed import Observed, Violation
from herdspec.check.observation.watches import watches_of
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.protocols.self_rebalancing.contract import CLAIMED

INITIAL: Mapping[str, Any] = {
    "generation": 0, "epoch": 0, "heeded": 0, "owner": None, "claims": 0, "claim": 0,
    "consumes": False, "position": 0, "reported": 0, "finished": 0, "committed": 0,
}  # fmt: skip
OF_THE_LEASE = frozenset({"exclusive", "who_consumes_owns"})
"""The sentences owed only where a session lasts for its time-out."""
FENCED = frozenset({
    "committed_offsets_never_go_back", "only_finished_is_committed",
    "nobody_is_past_the_unfinished", "who_begins_does_so_at_the_stored_offset",
    "only_the_latest_claim_stores", "owners_change_with_a_claim",
})  # fmt: skip
"""The sentences owed whatever becomes of sessions."""


def of_fields(
    names: Iterable[str],
) -> tuple[Specification, Mapping[str, Any], list[DeclaredProperty]]:
    """The contract, the fields that are filled, and these of its promises."""
    promises = {promise.name: promise for promise in CLAIMED.properties}
    return CLAIMED, INITIAL, [promises[name] for name in names]


WATCHES = watches_of(*of_fields(sorted(OF_THE_LEASE | FENCED)))


class ContractEyes(Eyes):
    """Fills the contract's fields with what it sees."""

    def __init__(self) -> None:
        self.seen = Observed(WATCHES)
        self.violations: list[BrokenPromise] = []
        self.run: RebalancingRun | None = None
        self._nodes: Nodes = {}
        self._fetched: dict[str, set[Partition]] = {}
        self._members: dict[str, str] = {}

    # ── What is there ───────────────────────────────────────────────────────────────────────

    def partitions(self, topics: Mapping[str, int]) -> None:
        """Partitions appear."""
        for topic, count in topics.items():
            for number in range(count):
                self.seen.add("Partition", (topic, str(number)))
        self._step()

    def enters(self, member: str, wants: object) -> None:
        """Members appear."""
        del wants
        self.seen.add("Member", member)
        self._step()

    def nodes(self, nodes: Nodes, sessions: Mapping[int, str]) -> None:
        """Owners, claims and offsets are what ZooKeeper keeps."""
        if nodes is self._nodes:
            return
        before, self._nodes = self._nodes, nodes
        for path in before.keys() | nodes.keys():
            node = nodes.get(path)
            if node is before.get(path):
                continue
            names = path.split("/")
            what, partition = names[-3:-2], (names[-2], names[-1])
            if len(names) != LENGTH_OF_A_PARTITIONS:
                continue
            if what == ["owners"]:
                owner = None if node is None else sessions.get(node.owner, f"session {node.owner}")
                self.seen.set("owner", partition, owner)
            elif what == ["offsets"]:
                stored = 0 if node is None else read_offset(node.data) + 1
                self.seen.set("committed", partition, stored)
            elif names[1:3] == ["herdproof", "claims"]:
                self.seen.set("claims", partition, 0 if node is None else node.version)
        self._step()

    # ── What members do ─────────────────────────────────────────────────────────────────────

    def claims(self, member: str, tokens: Mapping[Partition, int]) -> None:
        """A member knows the numbers of its claims; what it no longer knows it has given back."""
        for partition, token in tokens.items():
            self.seen.set("claim", (member, partition), token)
        self._step()

    def begins(self, member: str, starts: Sequence[Offset]) -> None:
        """A member consumes from there."""
        for start in starts:
            partition = (start.topic, start.partition)
            self._fetched.setdefault(member, set()).add(partition)
            self.seen.set("consumes", (member, partition), True)
            self.seen.set("position", (member, partition), start.offset + 1)
        self._step()

    def stops(self, member: str) -> None:
        """A member consumes nothing any more."""
        for partition in self._fetched.pop(member, ()):
            self.seen.set("consumes", (member, partition), False)
            self.seen.set("position", (member, partition), 0)
        self._step()

    def ceases(self, member: str, partition: Partition) -> None:
        """A member consumes a partition no more."""
        self._fetched.get(member, set()).discard(partition)
        self.seen.set("consumes", (member, partition), False)
        self.seen.set("position", (member, partition), 0)
        self._step()

    def dies(self, member: str) -> None:
        """Whoever is no more consumes nothing."""
        self.stops(member)

    def resolves(self, member: str, partition: Partition, offset: int) -> None:
        """Count what lies before a start that the reset has found as finished."""
        self._finished(partition, offset + 1)
        self._position(member, partition, offset + 1)

    def delivers(self, member: str, partition: Partition, offset: int) -> None:
        """Who gets a record consumes its partition, and is no further than this."""
        if not self.seen.get("consumes", (member, partition)):
            self._fetched.setdefault(member, set()).add(partition)
            self.seen.set("consumes", (member, partition), True)
            self.seen.set("position", (member, partition), offset + 1)
            self._step()

    def finishes(self, member: str, partition: Partition, offset: int) -> None:
        """A record is finished with."""
        self._finished(partition, offset + 2)
        self._position(member, partition, offset + 2)

    def stores(self, member: str, partition: Partition, offset: int) -> None:
        """Note what a member is about to store as said."""
        self.seen.set("reported", (member, partition), offset + 1)
        self._step()

    def _finished(self, partition: Partition, offset: int) -> None:
        self.seen.set("finished", partition, max(self.seen.get("finished", partition), offset))
        self._step()

    def _position(self, member: str, partition: Partition, offset: int) -> None:
        if self.seen.get("consumes", (member, partition)):
            self.seen.set("position", (member, partition), offset)
            self._step()

    def breaks(self, found: Violation) -> None:
        """The step in hand breaks a promise."""
        now = self.run.timeline.now if self.run is not None else 0.0
        self.violations.append(told(found, now))

    def _step(self) -> None:
        self.seen.step()
        for found in self.seen.broken():
            self.breaks(found)


LENGTH_OF_A_PARTITIONS = len(["", "consumers", "g", "owners", "topic", "partition"])
"""The number of names in a partition's node's path, below "/consumers" and "/herdproof" alike."""


def told(found: Violation, now_ms: float) -> BrokenPromise:
    """A violation, at its time."""
    return BrokenPromise(found.promise.name, now_ms, found.of)


def judged(
    seed: int, config: WorldConfig = DEFAULT,
    connector: type[ConsumerConnector] = ConsumerConnector,
    troubles: Sequence[Trouble] | None = None, member: type[SimulatedMember] = SimulatedMember,
    observe: Observes | None = None,
) -> JudgedRun[RebalancingRun]:  # fmt: skip
    """Live through a run, and judge it."""
    eyes = ContractEyes()
    run = RebalancingRun(seed, config, eyes, connector, troubles, member, observe)
    eyes.run = run
    run.live()
    rulings = {j.promise.name: j for j in eyes.seen.judgements()}
    unsettled = {p: members for p, members in run.consumed_by().items() if len(members) != 1}
    return JudgedRun(run, eyes.violations, rulings, unsettled)
