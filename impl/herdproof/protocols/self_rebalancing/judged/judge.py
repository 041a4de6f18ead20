"""
The contract's fields as each line of a consumer fills them: no guard, no judgement.

- What a consumer has asked of ZooKeeper was done at some time before the answer: of an offset that
  is under way nobody knows whether it is stored. An answer that comes after the next claim of a
  partition tells of the time before that.
- A consumer that says nothing may have stopped. Whether it consumed on when another one had claimed
  its partition, the lease in its next line tells.
- A token that follows none that was told: somebody else has claimed, and stored, in between. So may
  an owner have that has told of no release: its last lines may be missing.
- An offset that is read and was never told has been stored by somebody who writes no trace, as
  members of Kafka 0.8's: they count no claims, either.
- Where a consumer's lines are missing, nobody knows what it has claimed or stored meanwhile.
"""

from __future__ import annotations

from typing import Any

from herdproof.conformance.traces.line import TraceLine
from herdproof.consuming.assignment import Partition
from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.plain import PlainJudge
from herdproof.protocols.self_rebalancing.judged.eyes import INITIAL, of_fields
from herdspec.check.observation.inconclusive import is_lost, possible
from herdspec.check.observation.watches import watches_of

OBSERVED = (
    "exclusive", "who_consumes_owns", "committed_offsets_never_go_back",
    "who_begins_does_so_at_the_stored_offset", "only_the_latest_claim_stores",
    "owners_change_with_a_claim",
)  # fmt: skip
"""The sentences that lines tell of; what an application has finished no line tells."""
WATCHES = watches_of(*of_fields(OBSERVED))
STOPS = ("suspend", "close_fetchers", "handle_new_session", "shutdown")

Life = tuple[str, int]
"""A consumer, and which of its processes."""
OF_MEMBERS = ("consumes", "position", "reported", "claim")
OF_PARTITIONS = ("owner", "claims", "committed")


class ConnectorJudge(PlainJudge):
    """One group's lines, taken one after the other in their order."""

    def __init__(self) -> None:
        super().__init__(WATCHES)
        self._lives: dict[str, Life] = {}
        self._asked: dict[tuple[Life, Partition, bool], TraceLine] = {}
        self._fetched: dict[Life, dict[Partition, None]] = {}
        self._claimed_ns: dict[tuple[Life, Partition], int] = {}
        """When another one claimed what a consumer has not said that it consumes no more."""
        self._latest: dict[Partition, tuple[int, int]] = {}
        """By partition, the latest token that was told, and when."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.seen.bind(WATCHES)

    def take(self, line: TraceLine) -> bool:
        """The next line; whether it broke something."""
        m = self._life(line)
        for p in [*self._fetched.get(m, ())]:
            self._consumed_on(m, p, line)
        broke = self.seen.step()
        if line.action in STOPS:
            self._stop(m)
        for topic, number, offset in line.arguments.get("partitions", ()):
            self._of_partition(m, (topic, number), offset, line)
        return self.seen.step() or broke

    def _life(self, line: TraceLine) -> Life:
        """Whose line it is; one that has started anew consumes nothing."""
        if line.sequence == 1 or line.node not in self._lives:
            before = self._lives.get(line.node)
            if before is not None:
                self._stop(before)
            self._lives[line.node] = m = (line.node, before[1] + 1 if before else 1)
            self.seen.add("Member", m)
        return self._lives[line.node]

    def _consumed_on(self, m: Life, p: Partition, line: TraceLine) -> None:
        """Another one has claimed what it consumed: its lease tells whether it went on."""
        since_ns = self._claimed_ns.pop((m, p), None)
        if since_ns is not None:
            went_on = line.arguments.get("until_ns", 0) > since_ns
            self.seen.refine("consumes", (m, p), went_on)

    def _stop(self, m: Life) -> None:
        """It consumes nothing any more, whatever nobody knows that it has begun with."""
        fetched = self._fetched.pop(m, {})
        for p in self.seen.domains["Partition"]:
            self._claimed_ns.pop((m, p), None)
            for field, nothing in (("consumes", False), ("position", 0)):
                if is_lost(self.seen.get(field, (m, p))) and p not in fetched:
                    self.seen.refine(field, (m, p), nothing)
                elif p in fetched:
                    self.seen.set(field, (m, p), nothing)

    def _of_partition(self, m: Life, p: Partition, offset: int, line: TraceLine) -> None:
        if p not in self.seen.domains["Partition"]:
            self.seen.add("Partition", p)
            for field in OF_PARTITIONS:
                self.seen.forget(field, p)
        match line.action:
            case "claim" | "release" | "recall" | "commit":
                self._asked[m, p, line.action == "commit"] = line
                if line.action == "commit":
                    self.seen.set("reported", (m, p), offset + 1)
                    self.seen.widen("committed", p, offset + 1)
            case "answered":
                asked = self._asked.pop((m, p, offset >= 0), None)
                if line.arguments["outcome"] == "done":
                    self._answered(m, p, offset, asked, line)
            case "read_offsets":
                self._read(p, offset + 1)
            case "start_fetchers":
                self._supersede(m, p, line)
                self._fetched.setdefault(m, {})[p] = None
                self.seen.set("consumes", (m, p), True)
                self.seen.set("position", (m, p), offset + 1)

    def _answered(
        self, m: Life, p: Partition, offset: int, asked: TraceLine | None, line: TraceLine
    ) -> None:
        """It was done, by now; what was asked its own line need not tell."""
        token = line.arguments.get("token", 0)
        known, told_ns = self._latest.get(p, (0, 0))
        if offset >= 0:
            if token >= known or (asked is not None and asked.time_ns > told_ns):
                self.seen.set("committed", p, offset + 1)
        elif token > known:
            self._claims(m, p, token, line)
        elif token == known and (asked is None or asked.action == "release"):
            self.seen.set("owner", p, None)
            self.seen.set("claim", (m, p), 0)

    def _read(self, p: Partition, stored: int) -> None:
        """Note what is stored: what is more than any line tells, somebody without lines has."""
        told = possible(self.seen.get("committed", p))
        if told is not None and stored > max(told):
            self.seen.forget("committed", p)
        if is_lost(self.seen.get("committed", p)):
            self.seen.refine("committed", p, stored)

    def _claims(self, m: Life, p: Partition, token: int, line: TraceLine) -> None:
        known, _ = self._latest.get(p, (0, 0))
        self._latest[p] = token, line.time_ns
        owner = self.seen.get("owner", p)
        if token != known + 1 or is_lost(owner) or owner is not None:
            self.seen.forget("committed", p)  # who gave nothing back may have stored more
        self.seen.set("owner", p, m)
        self.seen.set("claims", p, token)
        self.seen.set("claim", (m, p), token)
        self._supersede(m, p, line)

    def _supersede(self, m: Life, p: Partition, line: TraceLine) -> None:
        """Whoever consumed it before has stopped, or will tell that it went on."""
        for other, fetched in self._fetched.items():
            if p in fetched and other != m:
                self._claimed_ns[other, p] = line.time_ns
                self.seen.forget("consumes", (other, p))

    def lose(self, gap: Gap) -> None:
        """Forget what it has, claims and stores, and whether what others tell is still so."""
        self.seen.gap(gap.lines, INITIAL)
        for field in OF_PARTITIONS:
            self.seen.blind(field)
        for m in self.seen.domains["Member"]:
            if m[0] == gap.node:
                for p in self._fetched.pop(m, {}):
                    self._claimed_ns.pop((m, p), None)
                for field in OF_MEMBERS:
                    self.seen.forget_all(field, m)

    def find(self, gap: Gap) -> None:
        """It is heard again: what is told from now on is so."""
        del gap
        for field in OF_PARTITIONS:
            self.seen.sees(field)
