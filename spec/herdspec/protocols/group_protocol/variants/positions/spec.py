"""
Fetch positions: where a client begins with a partition, and what becomes of the records before.

A partition is a log: producers move its end on, retention its beginning. Offsets count from 1, and
0 says that there is none. A client that has its assignment asks for the offsets that are stored of
it (OffsetFetch), and caches what it is told; the answer may be lost, may be an error, or may come
when its generation is long over. Where nothing is stored, or what is stored is out of range, the
reset says where to begin: at the end (LATEST), at the beginning (EARLIEST), or nowhere, which is an
error to the user (NONE). A start that the reset has found is stored before the first record is
handed out: else the next owner, which finds nothing stored, resets to an end that is further on.

Positions are committed when the user says so, by and by (`maybeAutoCommitOffsetsAsync`), and once
more before partitions are given up.

Source: `003` (updateFetchPositions, SubscriptionState, resets, maybeAutoCommitOffsetsAsync);
apache/kafka, KIP-19 and `ConsumerCoordinator.fetchCommittedOffsets`.

Assumed: as in the group protocol; whom the coordinator counts no more has stopped
(`evicted_has_stopped`); the reset is the same for all members, and the log loses no record but at
its beginning; a client has at most one OffsetFetch under way, and sends the next one once it has
heard of that.
Not modelled: as in the group protocol, but that the answer to an OffsetFetch, and to the
OffsetCommit of a start, are told. A log says at once where it begins and ends (ListOffsets).
"""

from __future__ import annotations

from enum import Enum

from herdspec import Nat, action, command, each, fault, initial, require, weak
from herdspec.protocols.group import Member as Member
from herdspec.protocols.group import Partition as Partition
from herdspec.protocols.group_protocol.spec import GroupProtocol
from herdspec.protocols.group_protocol.values import GroupWrite, MemberState


class OffsetReset(Enum):
    """Rule that says where to begin where no offset is stored, or where it is out of range."""

    LATEST = "latest"
    EARLIEST = "earliest"
    NONE = "none"


class OffsetFetch(Enum):
    """The OffsetFetch that a client has under way, or the answer to it."""

    NONE = "none"
    ASKED = "asked"
    TOLD = "told"  # what is stored, or that nothing is


class PositionedGroup(GroupProtocol):
    """A coordinator, logs, and clients that find out where to begin with them."""

    # The world.
    exists: dict[Partition, bool] = each(True)
    reset: OffsetReset = OffsetReset.LATEST
    log_start: dict[Partition, Nat] = each(1)  # the first record that there is
    log_end: dict[Partition, Nat] = each(2)  # the offset of the next record to be produced

    # What a client knows.
    fetches_at: dict[Member, Nat] = each(0)  # the generation whose offsets it waits for; 0: none
    unstored: dict[tuple[Member, Partition], bool] = each(False)  # a start that the reset has found
    has_failed: dict[Member, bool] = each(False)  # its user was told that there is no offset

    # What is under way.
    fetch: dict[Member, OffsetFetch] = each(OffsetFetch.NONE)
    told: dict[tuple[Member, Partition], Nat] = each(0)  # the offsets in the answer

    @initial
    def some_topics(  # type: ignore[override]
        self, known: set[Partition], reset: OffsetReset
    ) -> None:
        """Each partition has a record; where nothing is reset, of some an offset is stored."""
        self.reset = reset
        for p in Partition:
            if p in known and reset == OffsetReset.NONE:
                self.committed[p] = 1
                self.finished[p] = 1

    # ── The log ─────────────────────────────────────────────────────────────────────────────

    @action(kind=command, disturbs=True)
    def produce(self, p: Partition) -> None:
        """A record of {p} is produced."""
        require(self.exists[p])
        self.log_end[p] = self.log_end[p] + 1

    @action(kind=command, disturbs=True)
    def remove_record(self, p: Partition) -> None:
        """Retention removes the first record of {p}."""
        require(self.exists[p] and self.log_start[p] < self.log_end[p])
        self.log_start[p] = self.log_start[p] + 1

    # ── Where to begin ──────────────────────────────────────────────────────────────────────

    @action(fair=weak)
    def fetch_committed(self, m: Member) -> None:
        """{m} asks what is stored of its partitions."""
        require(self.client[m] == MemberState.STABLE and not self.ready[m])
        require(self.knows[m] and self.fetch[m] == OffsetFetch.NONE)
        self.fetch[m] = OffsetFetch.ASKED
        self.fetches_at[m] = self.at[m]

    @action(fair=weak)
    def handle_offset_fetch(self, m: Member) -> None:
        """The coordinator reads the OffsetFetch of {m}, and answers with what is stored."""
        require(self.fetch[m] == OffsetFetch.ASKED)
        require(self.coordinator is not None and self.commit_at[m] == 0)
        require(self.are_stored(m))
        self.fetch[m] = OffsetFetch.TOLD
        for p in Partition:
            if self.asks_for(m, p):
                self.told[m, p] = self.committed[p]

    @action(kind=fault)
    def lose_offset_fetch(self, m: Member) -> None:
        """The OffsetFetch of {m} or its answer is lost, or the answer is that it must ask again."""
        require(self.fetch[m] != OffsetFetch.NONE)
        self.drop_fetch(m)

    @action(fair=weak)
    def update_fetch_positions(self, m: Member) -> None:
        """{m} is told what is stored, and begins there; answers that it awaits no more it drops.

        Under NONE, where nothing is stored, its user is told so, and nothing begins.
        """
        require(self.fetch[m] == OffsetFetch.TOLD)
        if self.heeds_offsets(m):
            lacks = any(self.given[m, p] and self.told[m, p] == 0 for p in Partition)
            self.has_failed[m] = lacks and self.reset == OffsetReset.NONE
            self.ready[m] = not (lacks and self.reset == OffsetReset.NONE)
            for p in Partition:
                if self.given[m, p]:
                    self.position[m, p] = self.told[m, p]
        self.drop_fetch(m)

    @action(fair=weak)
    def resolve_start(self, m: Member, p: Partition) -> None:
        """{m} has no offset of {p}, or one that is out of range, and begins by the reset.

        A start that was found stays until it is stored.
        """
        require(self.ready[m] and self.given[m, p] and not self.unstored[m, p])
        require(self.position[m, p] < self.log_start[p] and self.reset != OffsetReset.NONE)
        if self.position[m, p] > 0 and self.finished[p] > 0:  # what lies between is given up
            self.finished[p] = max(self.finished[p], self.resets_to(p))
        self.position[m, p] = self.resets_to(p)
        self.unstored[m, p] = True

    @action(fair=weak)
    def store_starts(self, m: Member) -> None:
        """{m} sends OffsetCommit of the starts that the reset has found."""
        require(self.ready[m] and self.knows[m] and self.commit_at[m] == 0 and not self.up[m])
        require(any(self.unstored[m, p] for p in Partition))
        self.send_commit(m)

    @action(fair=weak)
    def deliver(self, m: Member, p: Partition) -> None:
        """{m} is told that its start of {p} is stored, and hands records out from there on."""
        require(self.ready[m] and self.unstored[m, p] and self.is_stored(m, p))
        require(self.knows[m] and self.coordinator is not None)
        self.unstored[m, p] = False

    @action(fair=weak)
    def report_out_of_range(self, m: Member, p: Partition) -> None:
        """NONE: what {m} is at of {p} is out of range, and its user is told so."""
        require(self.reset == OffsetReset.NONE and self.consumes(m, p) and not self.has_failed[m])
        require(self.position[m, p] < self.log_start[p])
        self.has_failed[m] = True

    # ── Records and offsets ─────────────────────────────────────────────────────────────────

    @action(kind=command)
    def consume(self, m: Member, p: Partition) -> None:
        """The application of {m} finishes with its next record of {p}."""
        require(self.consumes(m, p))
        require(self.log_start[p] <= self.position[m, p] < self.log_end[p])
        self.position[m, p] = self.position[m, p] + 1
        self.finished[p] = max(self.finished[p], self.position[m, p])

    @action(kind=command)
    def commit(self, m: Member) -> None:
        """{m} sends OffsetCommit of all that its application has finished."""
        require(self.ready[m] and self.knows[m] and self.commit_at[m] == 0 and not self.up[m])
        require(any(self.consumes(m, p) for p in Partition))
        self.send_commit(m)

    @action
    def maybe_auto_commit_offsets_async(self, m: Member) -> None:
        """At the end of a poll of {m}: it is time, and what is finished is committed."""
        require(self.ready[m] and self.knows[m] and self.commit_at[m] == 0 and not self.up[m])
        require(self.has_fresh(m))
        self.send_commit(m)

    @action(fair=weak)
    def store_offsets(self) -> None:
        """The offsets are stored."""
        self.stores(GroupWrite.OFFSETS)
        for p in Partition:
            if self.sent[p] > 0:
                self.committed[p] = self.sent[p]
                self.finished[p] = self.begun(p, self.sent[p])
            self.sent[p] = 0

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def heeds_offsets(self, m: Member) -> bool:
        """The client waits for offsets of the assignment that it has."""
        return self.fetches_at[m] > 0

    def resets_to(self, p: Partition) -> Nat:
        """The offset that the reset begins at."""
        return self.log_end[p] if self.reset == OffsetReset.LATEST else self.log_start[p]

    def is_stored(self, m: Member, p: Partition) -> bool:
        """The client is at what is stored, and nothing else that was taken is about to be."""
        return self.committed[p] == self.position[m, p] and not self.is_new(p)

    def begun(self, p: Partition, start: Nat) -> Nat:
        """The first record that the group has not finished, once somebody begins with one."""
        return start if self.finished[p] == 0 else self.finished[p]

    def committable(self, m: Member, p: Partition) -> Nat:
        """The offset of a client's OffsetCommit: the first record that it has not finished."""
        return self.position[m, p] if self.given[m, p] else 0

    def has_fresh(self, m: Member) -> bool:
        """The client has finished something that is not stored."""
        return any(
            self.consumes(m, p) and self.committable(m, p) != self.committed[p] for p in Partition
        )

    def send_commit(self, m: Member) -> None:
        """OffsetCommit is sent, of all that the client has."""
        self.commit_at[m] = self.at[m]
        for p in Partition:
            self.committing[m, p] = self.committable(m, p)

    def drop_fetch(self, m: Member) -> None:
        """No OffsetFetch is under way."""
        self.fetch[m] = OffsetFetch.NONE
        self.fetches_at[m] = 0
        for p in Partition:
            self.told[m, p] = 0

    # ── What the group protocol's own actions do otherwise ──────────────────────────────────

    def consumes(self, m: Member, p: Partition) -> bool:
        """The client has the partition, and knows where to begin; if by the reset, it is stored."""
        return (
            self.ready[m]
            and self.given[m, p]
            and self.position[m, p] > 0
            and not self.unstored[m, p]
        )

    def on_join_prepare(self, m: Member) -> None:
        """A client that is about to join commits what is finished, and gives up whatever it has."""
        if self.ready[m] and self.has_fresh(m):
            require(self.commit_at[m] == 0)
            self.send_commit(m)
        self.revoke(m)

    def note_stopped(self, m: Member) -> None:
        """A client consumes nothing any more, and heeds no offsets that it has asked for."""
        self.stop_fetching(m)
        self.has_failed[m] = False
        for p in Partition:
            self.position[m, p] = 0
            self.unstored[m, p] = False

    def stop_fetching(self, m: Member) -> None:
        """Offsets that are under way are of an assignment that is over."""
        self.fetches_at[m] = 0

    def note_unloaded(self) -> None:
        """Whoever has asked for offsets is not answered."""
        for m in Member:
            if self.fetch[m] == OffsetFetch.ASKED:
                self.drop_fetch(m)

    def forget(self, m: Member) -> None:
        """The client is no more."""
        self.fail_future(m)
        self.forget_id(m)
        self.drop_fetch(m)
        self.client[m] = MemberState.OFF
        self.knows[m] = False
        self.rejoin[m] = False
