"""
Reads what a plan is made from, piece by piece, and leaves a watch before each read.

Whatever changes after it was read, its watch tells; what changed before a watch was left, the read
shows. A node that does not stand is watched as well: it may come to be. A node that cannot be read
is watched until it is mended, and nobody plans meanwhile: who knows what it says plans otherwise.

Source: `004` (rebalance(), step 1); Kafka 0.8.2, `AssignmentContext` and its listeners.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from herdproof.consuming.kafka_nodes import read_partitions
from herdproof.protocols.self_rebalancing.core.context import ConnectorContext, Round, Then, reason
from herdproof.protocols.self_rebalancing.registries.context import AssignmentContext
from herdproof.protocols.self_rebalancing.registries.paths import BROKER_IDS, TOPICS, topic_path
from herdproof.protocols.self_rebalancing.registries.registrations import (
    BadRegistration,
    ConsumerRegistration,
    parsed,
)
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Data,
    Exists,
    Found,
    Get,
    Names,
    Refusal,
    Stat,
    Why,
)

Understand = Callable[[bytes], str]
"""Takes what a node says, and answers what is wrong with it: nothing, if it can be read."""


class ContextReader:
    """The snapshot that an attempt plans from, and the watches that it has left."""

    def __init__(self, context: ConnectorContext) -> None:
        self._context = context
        self.watched: set[str] = set()
        """Nodes whose change is a reason to rebalance."""
        self.trouble = ""
        self.has_brokers = False
        self.partitions: dict[str, tuple[str, ...]] = {}
        self.registrations: dict[str, ConsumerRegistration] = {}
        self.sees_itself = False
        """True if the member's own node was among those below `ids`."""
        self.strangers: tuple[str, ...] = ()
        """Members that a coordinator has: as long as there are any, nobody plans here."""

    def cut_off(self) -> None:
        """The connection is lost, and with it every watch."""
        self.watched.clear()

    def fired(self, path: str) -> bool:
        """Tells whether a watch has fired that is a reason to rebalance."""
        if path not in self.watched:
            return False
        self.watched.discard(path)
        return True

    def context(self) -> AssignmentContext:
        """The context that was read; while no broker is there, nothing is there to be planned."""
        return AssignmentContext(
            self._context.consumer_id, self.partitions if self.has_brokers else {},
            self.registrations,
        )  # fmt: skip

    # ── Topics ──────────────────────────────────────────────────────────────────────────────

    def read_topics(self, then: Then) -> None:
        """Read the partitions of the topics that the member wants."""
        self.trouble, self.partitions = "", {}
        round_ = Round(self._context, then)
        round_.ask(Children(BROKER_IDS), partial(self._brokers_listed, round_))
        registration = self._context.registration
        if registration.is_wildcard:
            self._list(round_, TOPICS, partial(self._topics_listed, round_))
        else:
            self._topics_listed(round_, ())
        round_.close()

    def _topics_listed(self, round_: Round, existing: tuple[str, ...]) -> None:
        for topic in self._context.registration.topics_of(existing):
            self.partitions[topic] = ()
            understand = partial(self._topic_read, topic)
            self._get(round_, topic_path(topic), understand, What.BAD_TOPIC)

    def _topic_read(self, topic: str, data: bytes) -> str:
        partitions = read_partitions(data)
        self.partitions[topic] = partitions or ()
        return f"{data[:60]!r} names no partitions" if partitions is None else ""

    def _brokers_listed(self, round_: Round, answer: Answer) -> None:
        """Brokers are watched while none is there: whoever has none has nothing to pull from."""
        self.has_brokers = isinstance(answer, Names) and bool(answer.names)
        if not self.has_brokers:
            self._list(round_, BROKER_IDS, self._brokers_awaited)

    def _brokers_awaited(self, names: tuple[str, ...]) -> None:
        self.has_brokers = bool(names)

    # ── Members ─────────────────────────────────────────────────────────────────────────────

    def read_ids(self, then: Then) -> None:
        """Read who is in the group, and what each wants."""
        own = self._context.consumer_id
        self.registrations = {own: self._context.registration}
        round_ = Round(self._context, then)
        self._list(round_, self._context.dirs.ids, partial(self._members_listed, round_))
        strangers = self._context.dirs.subscriptions
        if strangers not in self.watched:  # else what was read is so still
            self._list(round_, strangers, self._strangers_listed)
        round_.close()

    def registered(self) -> None:
        """The member's node is new: who is a coordinator's is to be looked for after it."""
        self.watched.discard(self._context.dirs.subscriptions)

    def _strangers_listed(self, names: tuple[str, ...]) -> None:
        self.strangers = names

    def _members_listed(self, round_: Round, names: tuple[str, ...]) -> None:
        own = self._context.consumer_id
        self.sees_itself = own in names
        for consumer in names:
            if consumer != own:
                path = self._context.dirs.id(consumer)
                understand = partial(self._member_read, consumer)
                round_.ask(Get(path), partial(self._got, round_, path, understand, MEMBER))

    def _member_read(self, consumer: str, data: bytes) -> str:
        try:
            self.registrations[consumer] = parsed(data)
        except BadRegistration as problem:
            return str(problem)
        return ""

    # ── Reads that leave a watch ────────────────────────────────────────────────────────────

    def _list(self, round_: Round, path: str, handle: Callable[[tuple[str, ...]], None]) -> None:
        """The children of a node, watched; none, if it does not stand, which is watched, too."""
        self.watched.add(path)
        round_.ask(Children(path, watch=True), partial(self._listed, round_, path, handle))

    def _listed(
        self, round_: Round, path: str, handle: Callable[[tuple[str, ...]], None], answer: Answer
    ) -> None:
        if isinstance(answer, Names):
            handle(answer.names)
        elif answer == Refusal(Why.NO_NODE):
            again = partial(self._list, round_, path, handle)
            self._await(round_, path, again, partial(handle, ()))
        else:
            self._fail(path, answer)

    def _get(self, round_: Round, path: str, understand: Understand, what: What) -> None:
        """A node's data, watched; where it does not stand, its creation is watched."""
        self.watched.add(path)
        round_.ask(Get(path, watch=True), partial(self._got, round_, path, understand, what))

    def _got(
        self, round_: Round, path: str, understand: Understand, what: What, answer: Answer
    ) -> None:
        if isinstance(answer, Data):
            if wrong := understand(answer.data):
                self._is_unreadable(round_, path, understand, what, wrong)
        elif answer != Refusal(Why.NO_NODE):
            self._fail(path, answer)
        elif what is not MEMBER:  # that a member has gone, the watch on its parent tells
            again = partial(self._get, round_, path, understand, what)
            self._await(round_, path, again, ignore_absence)

    def _is_unreadable(
        self, round_: Round, path: str, understand: Understand, what: What, wrong: str
    ) -> None:
        """Report it; unless its change is watched already, read it again, and watch."""
        if path in self.watched:
            self.trouble = f"{path} cannot be read: {wrong}"
            self._context.report(what, self.trouble)
        else:
            self._get(round_, path, understand, what)

    def _await(self, round_: Round, path: str, again: Then, absent: Then) -> None:
        """Watch for a node that does not stand; if it does by now, `again`."""
        round_.ask(Exists(path, watch=True), partial(self._awaited, again, absent))

    def _awaited(self, again: Then, absent: Then, answer: Answer) -> None:
        if isinstance(answer, Found) and isinstance(answer.stat, Stat):
            again()
        else:
            absent()

    def _fail(self, path: str, answer: Answer) -> None:
        assert isinstance(answer, Refusal), f"a read was answered by {answer}"
        self.trouble = f"{path} cannot be read: {reason(answer)}"


MEMBER = What.BAD_REGISTRATION


def ignore_absence() -> None:
    """A topic that does not stand has no partitions."""
