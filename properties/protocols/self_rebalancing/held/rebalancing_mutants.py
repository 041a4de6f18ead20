"""Twelve mistakes planted in the connector's core, beside those that the spec has variants of."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from herdproof.conformance.flawed import flawed
from herdproof.consuming.assignment import Partition
from herdproof.consuming.offsets import Offset
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.context import Round, Then
from herdproof.protocols.self_rebalancing.core.lease import SessionLease
from herdproof.protocols.self_rebalancing.core.offsets import OffsetCommits
from herdproof.protocols.self_rebalancing.core.ownership import Ownership
from herdproof.protocols.self_rebalancing.core.reader import ContextReader
from herdproof.protocols.self_rebalancing.core.rebalance import ZKRebalanceListener
from herdproof.zookeeper.operations import Exists, Get, Stat


class CommitsAhead(ConsumerConnector):
    """It counts one record more as consumed than was, once its lease was over."""

    _goes_ahead = False

    def consumed(self, offset: Offset, generation: int | None) -> None:
        """One too many."""
        ahead = Offset(offset.topic, offset.partition, offset.offset + self._goes_ahead)
        super().consumed(ahead, generation)

    def suspend(self) -> None:
        """Stop delivering, and count wrongly from then on."""
        self._goes_ahead = True
        super().suspend()


class LongLease(SessionLease):
    """It takes its lease for three times as long as the session may last."""

    def answered(self) -> None:
        """The whole time-out, and then some."""
        sent_ms = self.sent_ms or 0
        super().answered()
        self.until_ms = sent_ms + 3 * self.timeout_ms


class KeepsLongLease(ConsumerConnector):
    """It has such a lease."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.lease = LongLease()


class RegistersOnce(ConsumerConnector):
    """It registers in its first session alone."""

    _has_registered = False

    def _register(self) -> None:
        if not self._has_registered:
            super()._register()

    def _is_registered(self) -> None:
        self._has_registered = True
        super()._is_registered()


class StartsAnywhere(OffsetCommits):
    """It starts where the log begins, whatever is stored."""

    def read(self, tokens: Mapping[Partition, int], then: Then) -> None:
        """Read, and take everything for 0."""

        def forget() -> None:
            for stored in self.stored.values():
                stored.offset = stored.wanted = min(stored.offset, 0)
            then()

        super().read(tokens, forget)


class RemembersOffsets(OffsetCommits):
    """What it has read once it does not read again."""

    def read(self, tokens: Mapping[Partition, int], then: Then) -> None:
        """Start with what was known."""
        known = {p: stored.offset for p, stored in self.stored.items() if p in tokens}

        def remember() -> None:
            for p, offset in known.items():
                self.stored[p].offset = self.stored[p].wanted = offset
            then()

        super().read(tokens, remember)


class StartsEarly(Ownership):
    """It goes on once a claim is refused, as if that did not matter."""

    def _is_in_the_way(self, partition: Partition, stat: Stat) -> None:
        if stat.ephemeral_owner == self._context.session:
            super()._is_in_the_way(partition, stat)
        else:
            self.claims[partition].token = 1


class TakesAnyNode(Ownership):
    """Whatever node is in its way, it takes for its own."""

    def _is_in_the_way(self, partition: Partition, stat: Stat) -> None:
        own = replace(stat, ephemeral_owner=self._context.session)
        super()._is_in_the_way(partition, own)


class OwnerUnwatched(Ownership):
    """It leaves no watch on the node in its way."""

    def _look(self, partition: Partition) -> None:
        self._open += 1
        path = self._context.dirs.owner(partition)
        self._context.ask(Exists(path), lambda answer: self._looked(partition, answer))


class KeepsNodes(Ownership):
    """It releases nothing but what it will claim again."""

    def release_all(self, then: Then) -> None:
        """Go on, and keep everything."""
        then()


class TopicsUnwatched(ContextReader):
    """It reads topics, and leaves no watch."""

    def _get(self, round_: Round, path: str, understand: Any, what: Any) -> None:
        round_.ask(Get(path), lambda answer: self._got(round_, path, understand, what, answer))


class ReadsNoTopicsAnew(ZKRebalanceListener):
    """Its reader is that one."""

    reader = TopicsUnwatched


class PlansBackwards(ZKRebalanceListener):
    """It claims one partition of those that it plans, once it was cut off, if its name ends so."""

    _plans_one = False

    def add_ownership(self, own: dict[Partition, int]) -> None:
        """Of its partitions, the first."""
        if self._plans_one and self.context.consumer_id.endswith("2"):
            own = dict(list(own.items())[:1])
        super().add_ownership(own)

    def cut_off(self) -> None:
        """Wait for the connection, and plan wrongly from then on."""
        self._plans_one = True
        super().cut_off()


class NeverRetries(ZKRebalanceListener):
    """It backs off for ever."""

    def fail_attempt(self, why: str) -> None:
        """Fail, and leave it at that."""
        super().fail_attempt(why)
        self.again_ms = 2**62

    def reconnected(self) -> None:
        """Wait on."""
        self.may_begin = True


MUTANTS: Mapping[str, type[Any]] = {
    "commits_ahead": CommitsAhead, "long_lease": KeepsLongLease, "registers_once": RegistersOnce,
    "starts_anywhere": StartsAnywhere, "remembers_offsets": RemembersOffsets,
    "starts_early": StartsEarly, "takes_any_node": TakesAnyNode, "owner_unwatched": OwnerUnwatched,
    "keeps_nodes": KeepsNodes, "topics_unwatched": ReadsNoTopicsAnew,
    "plans_backwards": PlansBackwards, "never_retries": NeverRetries,
}  # fmt: skip


def mutant(name: str) -> type[ConsumerConnector]:
    """The core with this mistake."""
    one = frozenset({name})
    return flawed(ConsumerConnector, one, MUTANTS)
