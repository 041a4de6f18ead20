"""
Mistakes in the cores of system B, each a small change of the very code: are they caught?

A mutant says which function it changes, and which words of it into which others; a change whose
words are not there (any more) is refused, so that no mutant can quietly become the code itself. The
drafts' mistakes are subclasses of the cores
(`herdproof.protocols.central_coordinator.held.flawed`); these here are slips that somebody who
works on the code could make. What catches them, how soon: `test_central_mutants.py`.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from herdproof.consuming.assignment import _laid_out
from herdproof.protocols.central_coordinator.client.connector import Connector
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore
from herdproof.protocols.central_coordinator.coordinator.commits import Commits
from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.coordinator.groups import Flag, Interests
from herdproof.protocols.central_coordinator.coordinator.members.membership import Membership
from herdproof.protocols.central_coordinator.coordinator.offsets import Offsets
from herdproof.protocols.central_coordinator.coordinator.outbox import Outbox
from herdproof.protocols.central_coordinator.coordinator.rebalancing.rebalance import Rebalancer
from herdproof.protocols.central_coordinator.coordinator.store import Store
from herdproof.protocols.central_coordinator.coordinator.topics import TopicListeners
from herdproof.protocols.central_coordinator.simulated.random_runs import Config, Kind
from herdproof.protocols.central_coordinator.wire.primitives import ByteWriter
from herdproof.shells.expiry import Purgatory

Function = Callable[..., Any]


@dataclass(frozen=True)
class Change:
    """In one function, these words (they occur once) become those."""

    function: Function
    old: str
    new: str

    def code(self) -> CodeType:
        """The function's code with the change made."""
        source = textwrap.dedent(inspect.getsource(self.function))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.old!r} is not once in {self.function.__qualname__}")
        changed = compile(
            source.replace(self.old, self.new), inspect.getfile(self.function), "exec",
            flags=annotations.compiler_flag, dont_inherit=True,
        )  # fmt: skip
        codes = (code for code in changed.co_consts if isinstance(code, CodeType))
        return next(code for code in codes if code.co_name == self.function.__name__)


DEFAULT = Config()


@dataclass(frozen=True)
class Mutant:
    """A mistake: its name, what it does, and where."""

    name: str
    what: str
    change: Change
    world: Config = DEFAULT
    """Where the simulator hunts it."""
    runs: int = 6
    """For how many seeds, from 0 on."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The cores have this mistake, whoever uses them."""
        function = self.change.function
        assert isinstance(function, FunctionType)
        before = function.__code__
        function.__code__ = self.change.code()
        try:
            yield
        finally:
            function.__code__ = before


JOIN, CUT, KILLED = Kind.JOIN, Kind.CUT, Kind.KILL_CONSUMER

LARGER = Config(brokers=3, consumers=5, faults=40)
CROWDED = Config(consumers=5, kinds=frozenset({CUT, KILLED, JOIN, Kind.ADD_PARTITIONS}), faults=60)
SESSIONS_END = Config(
    kinds=frozenset({Kind.EXPIRE, KILLED, Kind.ADD_PARTITIONS}), faults=30, late_election_ms=2_000
)
LOST_MEMBERS = Config(kinds=frozenset({KILLED, CUT, Kind.PAUSE_CONSUMER, JOIN}), faults=25)
PAUSES = Config(kinds=frozenset({Kind.PAUSE_CONSUMER, Kind.PAUSE_BROKER, CUT, JOIN}), faults=25)
NEW_TOPICS = Config(
    consumers=4, kinds=frozenset({Kind.ADD_TOPIC, Kind.ADD_PARTITIONS, JOIN}), faults=20
)
CUT_OFF = Config(consumers=4, kinds=frozenset({CUT}), faults=120)

MUTANTS: tuple[Mutant, ...] = (
    # ── Fences, and who may write ───────────────────────────────────────────────────────────
    Mutant(
        "fence_of_any_epoch",
        "a write checks that there is an epoch, not which",
        Change(Store._fenced, "self._context.epoch, operations", "-1, operations"),
        world=SESSIONS_END,
    ),
    Mutant(
        "deposed_keeps_channels",
        "who is deposed forgets all and closes nothing",
        Change(Coordinator.handle_new_session, "self.socket_server.close_all(why)", "pass"),
        world=SESSIONS_END,
    ),
    Mutant(
        "answers_of_the_past",
        "answers to what was asked before it was deposed are still taken",
        Change(Outbox.forget, "self.asked.clear()", "pass"),
        world=LARGER,
        runs=44,
    ),
    Mutant(
        "pause_unnoticed",
        "a coordinator that was paused goes on until somebody tells it",
        Change(Coordinator._check_pause, "paused_ms <= self.settings.leadership_lease_ms", "True"),
        world=PAUSES,
    ),
    # ── The order of a rebalance ────────────────────────────────────────────────────────────
    Mutant(
        "first_answer_is_enough",
        "the barrier is over when the first member has stopped",
        Change(
            Rebalancer.stopped,
            "group.waiting.discard(member.registration)",
            "group.waiting.clear()",
        ),
        world=LOST_MEMBERS,
    ),
    Mutant(
        "owners_written_early",
        "owners are written when the Stops are sent, and again afterwards",
        Change(
            Rebalancer._stop_all,
            "group.plan = plan\n",
            "group.plan = plan\n"
            "    group.phase = Phase.FLUSHING\n"
            "    self._owners_written = lambda *_: None\n"
            "    self._write_owners(group, group.generation + 1)\n"
            "    del self._owners_written\n"
            "    group.phase = Phase.STOPPING\n",
        ),
    ),
    Mutant(
        "dirty_is_cleared_first",
        "the dirty bit is cleared before it is looked at",
        Change(Flag.reset, "was_dirty = self.dirty\n", "was_dirty = self.dirty = False\n"),
        world=CROWDED,
        runs=16,
    ),
    Mutant(
        "two_handlers",
        "which handler a group is hashed to changes with its generation",
        Change(
            Rebalancer.handler_of,
            "group.name.encode()",
            'f"{group.name} {group.generation}".encode()',
        ),
    ),
    Mutant(
        "lost_are_waited_for",
        "a rebalance goes on waiting for a member that is lost",
        Change(Rebalancer.member_lost, "group.waiting.discard(member.registration)", "pass"),
        world=LOST_MEMBERS,
    ),
    Mutant(
        "point_written_first",
        "of a split write, the first part makes the owners valid",
        Change(Store._operations, "len(job.parts) == 1", "len(job.parts) == job.size"),
    ),
    # ── Leases ──────────────────────────────────────────────────────────────────────────────
    Mutant(
        "lease_of_who_acknowledged",
        "only whose Start was answered is taken to fetch",
        Change(Membership.gone, "haunts = member.may_fetch and", "haunts = member.acked > 0 and"),
        world=LOST_MEMBERS,
        runs=16,
    ),
    Mutant(
        "grace_for_a_lease",
        "a new coordinator waits for the grace period instead of the lease",
        Change(
            Membership._take_over,
            "self._settings.lease_ms(timeout_ms)",
            "self._settings.failover_grace_ms",
        ),
        runs=12,
    ),
    Mutant(
        "delivers_after_the_lease",
        "a consumer delivers until it stops, whatever its lease says",
        Change(
            ConsumerCore.may_deliver,
            "now_ms < self.delivers_until_ms",
            "self.delivers_until_ms > 0",
        ),
        world=PAUSES,
    ),
    Mutant(
        "replaced_watchers_fire",
        "a timer that was set anew goes off when the first was due",
        Change(
            Purgatory._drop_cleared,
            "watcher is not None and watcher[0] == number",
            "watcher is not None",
        ),
    ),
    # ── Who gets what ───────────────────────────────────────────────────────────────────────
    Mutant(
        "start_by_consumer_id",
        "of two members with one id, one owns what both were meant to get",
        Change(
            Rebalancer._planned_owners,
            "Owner(group.members[name].consumer_id, name)",
            "Owner(group.members[name].consumer_id, next(one for one, m in group.members.items()"
            " if m.consumer_id == group.members[name].consumer_id))",
        ),
        runs=12,
    ),
    Mutant(
        "shares_rounded_up",
        "each thread gets one partition more, until none is left",
        Change(_laid_out, "min(before, first)", "(before if first else 0)"),
        world=CROWDED,
    ),
    Mutant(
        "stale_partitions",
        "the partitions of a topic are those that it had when it was seen first",
        Change(
            TopicListeners.topic_partition_change_listener,
            "if self.topics.get(topic) != partitions:",
            "if topic not in self.topics:",
        ),
        world=NEW_TOPICS,
    ),
    Mutant(
        "wildcards_forgotten",
        "a new topic concerns the groups that name it, and no other",
        Change(Interests.groups_of, "if group not in named and any(", "if group in named and any("),
        world=NEW_TOPICS,
    ),
    # ── Offsets ─────────────────────────────────────────────────────────────────────────────
    Mutant(
        "offsets_go_back",
        "whatever offset came last is stored",
        Change(Offsets.note, "if offset > known", "if offset != known"),
    ),
    Mutant(
        "commit_answered_early",
        "a commit is answered before it is stored",
        Change(
            Commits.handle_commit,
            "self._offsets.flush(",
            "self._answer(number, frame, ErrorCode.NONE)\n    self._offsets.flush(",
        ),
    ),
    Mutant(
        "one_offset_too_far",
        "a record counts as consumed when the one before it is",
        Change(
            Connector.handle_consumed,
            "max(info.consumed_offset, offset.offset)",
            "offset.offset + 1",
        ),
    ),
    Mutant(
        "unstored_reset",
        "a start that was resolved by reset is delivered before it is stored",
        Change(
            Connector.handle_resolved,
            "return self._commit((offset,), now_ms, resolved=True)",
            "return [Deliver(NamedPartition(offset.topic, offset.partition), generation or 0)]",
        ),
    ),
    # ── What is said ────────────────────────────────────────────────────────────────────────
    Mutant(
        "fetches_after_stop",
        "a Stop is answered, and the fetchers go on",
        Change(Connector.stop_fetching, "StopFetchers(), *(", "*("),
    ),
    Mutant(
        "length_in_characters",
        "a string's length on the wire is that of its characters",
        Change(ByteWriter.string, "string_bytes(value)", "INT16.pack(len(value)) + value.encode()"),
    ),
    # ── What has stopped ────────────────────────────────────────────────────────────────────
    Mutant(
        "says_stopped_early",
        "a consumer that was cut off says that it has stopped, and fetches on",
        Change(
            ConsumerCore._let_go,
            "effects = connector.stop_fetching()\n    self.consumption.clear()\n",
            "effects = []\n",
        ),
        world=CUT_OFF,
        runs=40,
    ),
    Mutant(
        "over_by_id",
        "what one registration of a consumer id says is taken to be said of all",
        Change(
            Membership._former, "for name in member.former if name in named", "for name in named"
        ),
    ),
    Mutant(
        "over_before_the_barrier",
        "leases end before the barrier knows of who has said so",
        Change(
            Membership._admitted,
            "self.rebalancer.member_joined(group, member)",
            "self._end_former(group, member); self.rebalancer.member_joined(group, member)",
        ),
    ),
)
"""All mistakes, by what they are about."""
