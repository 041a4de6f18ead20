"""
Subscriptions that change: a member subscribes to something else, and stays a member.

The client reads no more of what it does not subscribe to, and joins again; its JoinGroup says what
it wants by now. Until then it has its partitions as before, and may commit what it has finished. A
coordinator to which a member says something else than before begins a rebalance, be the generation
assigned or not, and the leader shares out by what was said of the members of its generation. What
they have said is stored with it, so that a coordinator that takes over knows the difference, too.
Who changes its mind while it joins is given what it had asked for, and joins once more.

Source: apache/kafka, `ConsumerCoordinator.rejoinNeededOrPending` (`joinedSubscription`),
`SubscriptionState.changeSubscription` and `GroupMetadataManager.classicGroupJoin`.

Assumed: as in the group protocol.
Not modelled: as in the group protocol. Who changes its mind, and back, before it has joined joins
all the same (Kafka's client compares, and need not). That a client unsubscribes from everything and
leaves is `close`.
"""

from __future__ import annotations

from herdspec import action, command, each, require
from herdspec.protocols.group import Member as Member
from herdspec.protocols.group import Partition as Partition
from herdspec.protocols.group_protocol.spec import GroupProtocol
from herdspec.protocols.group_protocol.values import Entry, GroupState, MemberState

begin_next_generation = GroupProtocol.begin_generation
consume_next = GroupProtocol.consume


class ResubscribingGroup(GroupProtocol):
    """A coordinator, and clients that subscribe to something else; `interest` is what is stored."""

    # What the coordinator keeps in memory.
    says: dict[tuple[Member, Partition], bool] = each(False)  # the member's last JoinGroup

    # What a client knows.
    subscribed: dict[tuple[Member, Partition], bool] = each(False)  # what it wants now
    asked_for: dict[tuple[Member, Partition], bool] = each(False)  # what its last JoinGroup says

    # ── The client ──────────────────────────────────────────────────────────────────────────

    @action(kind=command)
    def subscribe(self, m: Member, wanted: set[Partition]) -> None:
        """{m} subscribes to {wanted}; what it owned in a former life is nobody's."""
        self.begin_life(m)
        for p in Partition:
            self.subscribed[m, p] = p in wanted
            self.asked_for[m, p] = False

    @action(kind=command, disturbs=True)
    def change_subscription(self, m: Member, wanted: set[Partition]) -> None:
        """{m} subscribes to {wanted} from now on, and is to join again."""
        require(self.client[m] != MemberState.OFF)
        require(any((p in wanted) != self.subscribed[m, p] for p in Partition))
        for p in Partition:
            self.subscribed[m, p] = p in wanted
        self.rejoin[m] = self.client[m] != MemberState.UNJOINED

    @action(kind=command, disturbs=True)
    def consume(self, m: Member, p: Partition) -> None:
        """The application of {m} finishes with its next record of {p}, to which it subscribes."""
        require(self.subscribed[m, p])
        consume_next(self, m, p)

    def on_join_prepare(self, m: Member) -> None:
        """A client that is about to join gives up whatever it has, and says what it wants."""
        self.revoke(m)
        for p in Partition:
            self.asked_for[m, p] = self.subscribed[m, p]

    # ── The coordinator ─────────────────────────────────────────────────────────────────────

    def says_the_same(self, m: Member) -> bool:
        """The JoinGroup of a member says what its last one did."""
        return all(self.says[m, p] == self.asked_for[m, p] for p in Partition)

    def answers_at_once(self, m: Member) -> bool:
        """A member that asks again, and for the same, is told of its generation once more."""
        return self.belongs_already(m) and self.says_the_same(m)

    def note_joined(self, m: Member) -> None:
        """A member's JoinGroup was read, and says what it wants."""
        for p in Partition:
            self.says[m, p] = self.asked_for[m, p]

    def begin_generation(self) -> None:
        """A generation is stored with what its members have said."""
        begin_next_generation(self)
        for m in Member:
            for p in Partition:
                self.interest[m, p] = self.is_member(m) and self.says[m, p]

    def remove(self, m: Member) -> None:
        """The coordinator counts a member no more, whatever it has said: the others rebalance."""
        was_member = self.is_member(m)
        self.entry[m] = Entry.NONE
        for p in Partition:
            self.says[m, p] = False
        if was_member and self.state != GroupState.PREPARING_REBALANCE:
            self.prepare_rebalance()

    def note_unloaded(self) -> None:
        """Whoever loads the group knows of JoinGroups what is stored with the generation."""
        for m in Member:
            for p in Partition:
                self.says[m, p] = self.belongs[m] and self.interest[m, p]
