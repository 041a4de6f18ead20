"""
A member of a consumer group: shares the group's partitions with the others, reads its own.

    with Consumer(
        "group", coordinators=["127.0.0.1:9191"], bootstrap_servers="127.0.0.1:9092"
    ) as own:
        own.subscribe(["orders"])
        for record in own:
            …

Asking for the next record says that the last one is finished with; only finished records count as
consumed, so that none is lost when the consumer dies amid one. What was not stored by then is
delivered again, here or elsewhere.

Which protocol its group has is an argument; all decisions are that protocol's.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from herdproof.conformance.traces.tracer import open_trace
from herdproof.consuming.configuration import consumer_arguments
from herdproof.consuming.fetching.fetchers import (
    ApplicationAway,
    Fetchers,
    KafkaUnusable,
    Pause,
    Seek,
)
from herdproof.consuming.fetching.streams import Place, RecordReader, Streams
from herdproof.consuming.fetching.watermarks import watermarks
from herdproof.consuming.listener import (
    ListenerThread,
    RebalanceListener,
)
from herdproof.consuming.membership import (
    AllKnownBrokersNotAvailable,
    BadArgument,
    ConsumerArguments,
    GroupMembership,
    Observe,
    RegistrationRefused,
    by_number,
    host_ports,
    ignore_event,
    joining,
)
from herdproof.consuming.offsets import Offset, OffsetReset
from herdproof.consuming.subscription import Named, Subscription, named, wildcard
from herdproof.errors import CallerError, PeerError
from herdproof.record import Record, TopicPartition

__all__ = [
    "AllKnownBrokersNotAvailable",
    "ApplicationAway",
    "BadArgument",
    "CommitFailed",
    "Consumer",
    "KafkaUnusable",
    "Misused",
    "RebalanceListener",
    "Record",
    "RegistrationRefused",
    "Stream",
    "TopicPartition",
]

CLOSED = "the consumer is closed: make a new one"
_UNRESOLVED = "where {}-{} begins is not known yet: ask again when its first record has come"

RESETS: Mapping[str, OffsetReset | None] = {
    "smallest": OffsetReset.SMALLEST,
    "earliest": OffsetReset.SMALLEST,
    "largest": OffsetReset.LARGEST,
    "latest": OffsetReset.LARGEST,
    "none": None,
}
"""Values that `auto_offset_reset` may have: the documents' names, and those of today's Kafka."""

OURS = {
    "bootstrap.servers": "bootstrap_servers", "group.id": "group", "client.id": "consumer_id",
    "auto.offset.reset": "auto_offset_reset", "enable.auto.commit": "auto_commit",
    "session.timeout.ms": "session_timeout_s", "queued.min.messages": "max_queued_records",
    "partition.assignment.strategy": "protocol",
}  # fmt: skip
"""Settings of librdkafka's that say nothing here, and the argument that does."""

CLOSE_S = 10.0
"""Time that `close` waits for the listener, the last commit and the coordinator's farewell."""

KafkaSettings = Mapping[str, str | int | float | bool]
Topics = str | re.Pattern[str] | Iterable[str] | Mapping[str, int]


class Misused(CallerError):
    """A call that does not go with those before it."""


class CommitFailed(PeerError):
    """A commit was not stored, or nobody knows; `code` is the reason."""

    def __init__(self, code: Enum, why: str) -> None:
        super().__init__(why)
        self.code = code


class Consumer:
    """
    One member of `group`; safe to be used from several threads.

    `bootstrap_servers` are Kafka's own addresses ("host:port", several as a list or with commas),
    `protocol` is that of the group, whose own arguments follow:

    - "central": `coordinators`, where these listen (perhaps a mapping from brokers' ids), of which
      one that answers is enough;
      `ping_interval_s`: how often the coordinator asks, less than half of `session_timeout_s` (10);
      `max_ping_retries`; `request_timeout_s`; `backoff_s` and `backoff_max_s`: the first and the
      longest wait between attempts; `gives_up`: raise `AllKnownBrokersNotAvailable` when no known
      broker answers, instead of trying on; `resumes` (True): without a coordinator it consumes on
      while its lease holds, and is not stopped if the next one finds nothing changed; `tls`: speak
      to coordinators by it (Kafka's own is set by `kafka`).
    - "self_rebalancing": `zookeeper`, its servers' addresses, perhaps with a chroot;
      `rebalance_max_retries`, `rebalance_backoff_s`, `auto_commit_interval_s`, with Kafka 0.8's
      defaults, as `session_timeout_s` (6), ZooKeeper's.

    - "group_protocol": Kafka's own, whose coordinator is found through `bootstrap_servers`;
      `assignors` ("range", "roundrobin", "sticky", "cooperative-sticky", or a user's own),
      `heartbeat_interval_s`, `max_poll_interval_s`, `auto_commit_interval_s`, `request_timeout_s`,
      `metadata_max_age_s`, with Kafka's defaults, as `session_timeout_s` (45);
      `group_instance_id`: it is a static member; `tls`: as `kafka`'s security settings say, which
      count for all its connections, or by this context.

    What all have:

    - `auto_offset_reset` ("smallest" or "largest", also "earliest" or "latest"): where to begin
      where no offset is stored, or where it is out of range; "none", in the group protocol: an
      error where none is stored.
    - `auto_commit`: finished records are stored every now and then; else `commit` does.
    - `session_timeout_s`: after so long unheard it stops by itself, and the others take over.
    - `kafka`: further settings of librdkafka, as "security.protocol".
    - `max_queued_records`: how many records each stream keeps ready.
    - `max_poll_interval_s` (300): who leaves records waiting for longer without asking for the next
      one is taken for stuck, and leaves its group. In the group protocol it rejoins when it asks;
      in the others that raises `ApplicationAway`, and None waits for ever.
    - `trace`: a file to append a line to for each step of the protocol (docs/central_trace.md,
      docs/self_rebalancing_trace.md, docs/group_protocol_trace.md); `run` is what the traces of one
      run are called.

    Raises `BadArgument`, `BadSettings` or `KafkaUnusable` at once for what can be known at once.
    """

    def __init__(
        self, group: str, *, bootstrap_servers: str | Sequence[str], protocol: str = "central",
        consumer_id: str | None = None, auto_offset_reset: str = "largest",
        auto_commit: bool = True, session_timeout_s: float | None = None,
        listener: RebalanceListener | None = None, kafka: KafkaSettings | None = None,
        max_queued_records: int = 5_000, trace: str | Path | None = None, run: str | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        join = joining(protocol)
        if auto_offset_reset not in RESETS:
            raise BadArgument(
                f"auto_offset_reset is {auto_offset_reset!r}: it must be one of "
                f"{', '.join(map(repr, RESETS))}"
            )
        if not group:
            raise BadArgument("group is empty: give the group's name")
        if max_queued_records < 1:
            raise BadArgument(f"max_queued_records is {max_queued_records}: it must be at least 1")
        if ours := [name for name in kafka or () if name in OURS]:
            raise BadArgument(
                f"kafka sets {ours[0]!r}, which is the argument {OURS[ours[0]]}: leave it out there"
            )
        self.group = group
        servers = host_ports("bootstrap_servers", bootstrap_servers)
        self._trace = None if trace is None else opened(Path(trace))
        self._reset = RESETS[auto_offset_reset]
        self._given = dict(kafka or {})
        self._candidate = join(
            ConsumerArguments(
                group=group,
                consumer_id=consumer_id,
                auto_offset_reset=self._reset,
                auto_commit=auto_commit,
                session_timeout_s=session_timeout_s,
                listens=listener is not None,
                trace=self._trace,
                run=run,
                bootstrap=tuple(servers),
                kafka=self._given,
                options=options,
            )
        )
        self.consumer_id = self._candidate.consumer_id
        self._kafka: KafkaSettings = {
            "client.id": self.consumer_id,
            "group.id": group,  # librdkafka wants one, though nothing is done with it
            "queued.min.messages": max_queued_records,
            "queued.max.messages.kbytes": 16 * 1024,
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 100,
            **(kafka or {}),
            "bootstrap.servers": ",".join(
                f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers
            ),
        }
        self._rebalance_listener = listener
        self._observe: Observe = ignore_event
        self._streams = Streams(max_records=max_queued_records)
        self._reader: RecordReader | None = None
        self._session: GroupMembership | None = None
        self._listener: ListenerThread | None = None
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def from_file(cls, file: str | Path | None, **arguments: Any) -> Self:
        """
        A consumer whose arguments are in a TOML file (docs/operating.md); these win over it.

        One that is None is not said. Without a file, `tls` may be its table nevertheless.

        Raises `BadConfiguration` and `BadTls` beside what the constructor does.
        """
        found = consumer_arguments(None if file is None else Path(file), arguments)
        if missing := [name for name in ("group", "bootstrap_servers") if name not in found]:
            raise BadArgument(f"{missing[0]} is missing: give it, in the file or beside it")
        return cls(**found)

    # ── Subscribing ─────────────────────────────────────────────────────────────────────────

    def subscribe(self, topics: Topics, *, streams: int = 1) -> None:
        """
        Join the group for these topics; once.

        `topics` is a topic, several, a mapping from topics to their numbers of streams, or a
        pattern (compiled, or a string that begins with "^") that has to match a topic's whole name:
        then topics that appear later are taken in as well. `streams` is the number where `topics`
        does not say it. Patterns are RE2's; `InvalidSubscription` says what one lacks.
        """
        subscription = read_topics(topics, streams)
        with self._lock:
            self._refuse_another()
            self._session = self._begin(subscription)

    def assign(self, partitions: Iterable[Place]) -> None:
        """
        Consume these partitions, whoever else does, with the group's offsets; once.

        Only where the protocol has it: in the group protocol.
        """
        places = tuple(partitions)
        with self._lock:
            self._refuse_another()
            begin = getattr(self._candidate, "begin_by_hand", None)
            if begin is None:
                raise Misused("in this protocol the group shares all partitions: subscribe")
            listener = self._listener_thread()
            session = begin(places, self._streams, listener, self._observe)
            self._session = self._run(session, sorted({place[0] for place in places}))

    def _refuse_another(self) -> None:
        if self._closed:
            raise Misused(CLOSED)
        if self._session is not None:
            raise Misused("the consumer has subscribed before: make another one for these")

    def _listener_thread(self) -> ListenerThread | None:
        if self._rebalance_listener is not None:
            self._listener = ListenerThread(self._rebalance_listener)
        return self._listener

    def _begin(self, subscription: Subscription) -> GroupMembership:
        listener = self._listener_thread()
        named_topics = subscription.topics if isinstance(subscription, Named) else ()
        session = self._candidate.begin(subscription, self._streams, listener, self._observe)
        return self._run(session, [topic for topic, _ in named_topics])

    def _run(self, session: GroupMembership, topics: Sequence[str]) -> GroupMembership:
        session.fetchers = Fetchers(
            self._kafka,
            self._reset,
            self._streams,
            session.post,
            session.fail,
            session.troubles,
            topics,
            self._candidate.max_poll_interval_s,
        )
        session.start()
        session.fetchers.start()  # if they die at once, there is a session that can be ended
        return session

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are consumed here at present."""
        session = self._session
        if session is None:
            return ()
        return tuple(map(by_number, session.partitions()))

    @property
    def troubles(self) -> tuple[str, ...]:
        """
        Problems at present, a sentence each; empty where all is well.

        As that no coordinator answers, or that a topic is not there. It is logged as well: at once,
        again ever more seldom while it lasts, and when it is over.
        """
        session = self._session
        return () if session is None else session.troubles.present

    # ── Records ─────────────────────────────────────────────────────────────────────────────

    def poll(self, timeout_s: float | None = None) -> Record | None:
        """
        The next record of any stream; the one before is finished with.

        Waits for it, `timeout_s` seconds at most: None if none came, or the consumer is closed
        meanwhile. Raises what made an end of the consumer: `AllKnownBrokersNotAvailable`,
        `RegistrationRefused`, `KafkaUnusable` or `ApplicationAway`; `Misused` of one that was
        closed before.
        """
        self._open()
        return self._next(timeout_s)

    def _next(self, timeout_s: float | None = None) -> Record | None:
        with self._lock:
            if self._reader is None:
                self._reader = RecordReader()
            reader = self._reader
        if reader.queue is not None:
            raise Misused("the consumer's streams are read one by one: ask them for records")
        return self._streams.take(reader, timeout_s)

    def __iter__(self) -> Iterator[Record]:
        """Records for as long as the consumer is open; see `poll`."""
        self._open()
        while (record := self._next()) is not None:
            yield record

    def streams(self) -> list[Stream]:
        """
        The streams one by one, each for a thread of its own; instead of `poll` and iteration.

        Of topics by name, in order: sorted by topic, each with its number of streams.
        """
        session = self._open()
        with self._lock:
            if self._reader is not None:
                raise Misused("the consumer is read as a whole, or its streams were taken before")
            self._reader = RecordReader(0)
        return [Stream(self._streams, queue) for queue in range(session.stream_count())]

    # ── Partitions ──────────────────────────────────────────────────────────────────────────

    def position(self, partition: Place) -> int:
        """
        The offset of the partition's next record.

        Raises `Misused` for a partition that is not assigned, or whose start is being looked up.
        """
        self._generation_of(partition)
        position = self._streams.position(partition)
        if position is None:
            raise Misused(_UNRESOLVED.format(*partition))
        return position

    def committed(self, partition: Place) -> int | None:
        """
        The offset that is stored of an assigned partition, as far as this consumer was told.

        That is the one with which it was assigned, or that of the last `commit` since; with
        `auto_commit` more may be stored. None where none was.
        """
        self._generation_of(partition)
        return self._streams.stored(partition)

    def lags(self) -> dict[TopicPartition, int]:
        """
        Distance of `position` from each assigned partition's end, which Kafka is asked for.

        Those are left out whose position is not known yet. Raises `KafkaUnreachable`.
        """
        known = {place: self._streams.position(place) for place in self.assignment}
        places = {(place.topic, str(place.partition)): place for place in known}
        ends = watermarks(str(self._kafka["bootstrap.servers"]), places, self._given)
        return {
            place: max(0, ends[name].latest - position)
            for name, place in places.items()
            if (position := known[place]) is not None
        }

    def seek(self, partition: Place, offset: int) -> None:
        """
        Read on from this offset of an assigned partition; whatever was read before.

        What the group has stored never goes back: of records that are read again, only those
        beyond it count. What is skipped counts as finished with the first record behind it. Raises
        `Misused` as `position` does.
        """
        if offset < 0:
            raise BadArgument(f"offset is {offset}: it must be at least 0")
        generation, fetchers = self._generation_of(partition), self._fetchers()
        if not self._streams.seek(partition, generation, offset):
            raise Misused(_UNRESOLVED.format(*partition))
        fetchers.order(Seek(partition, generation, offset))

    def pause(self, *partitions: Place) -> None:
        """
        Hand out no record of these assigned partitions until `resume`; they stay this consumer's.

        A new assignment begins without pauses.
        """
        for partition in partitions:
            generation = self._generation_of(partition)
            self._streams.pause(partition)
            self._fetchers().order(Pause(partition, generation, is_paused=True))

    def resume(self, *partitions: Place) -> None:
        """Go on with partitions that were paused; of others, nothing changes."""
        for partition in partitions:
            generation = self._generation_of(partition)
            self._streams.resume(partition)
            self._fetchers().order(Pause(partition, generation, is_paused=False))

    @property
    def paused(self) -> tuple[TopicPartition, ...]:
        """The partitions that are paused."""
        return tuple(TopicPartition(*place) for place in self._streams.paused())

    def _generation_of(self, partition: Place) -> int:
        self._open()
        generation = self._streams.generation_of(partition)
        if generation is None:
            raise Misused(
                "{}-{} is not assigned to this consumer: ask its `assignment`".format(*partition)
            )
        return generation

    def _fetchers(self) -> Fetchers:
        fetchers = self._open().fetchers
        assert fetchers is not None, "they are made with the session"
        return fetchers

    # ── Commits ─────────────────────────────────────────────────────────────────────────────

    def commit(self, record: Record | None = None, *, timeout_s: float = 10.0) -> None:
        """
        Have stored what is finished with; with a `record`, that it is, and all before it.

        Returns when it is stored. Raises `CommitFailed`; `Misused` in a callback of `commit_async`,
        whose thread would wait for itself.
        """
        session = self._open()
        if session.is_own_thread():
            raise Misused("a callback of a commit cannot wait for another: call `commit_async`")
        outcome = self.commit_async(record)
        try:
            outcome.result(timeout_s)
        except TooLate:
            unanswered = session.why_not(None)
            assert unanswered is not None, "who has no answer does not know that it is stored"
            raise CommitFailed(*unanswered) from None

    def commit_async(self, record: Record | None = None) -> Future[None]:
        """
        Ask for what `commit` does, and return at once; the future is done when it is known.

        Its `result()` is None once it is stored, and raises `CommitFailed` if it is not, or nobody
        knows. Commits are sent in the order in which they are asked for. One that is asked for
        once its partition was revoked is refused; one that was sent before is answered by whoever
        coordinates. `close` waits for those: no future is left that will never be done. There is no
        cancelling.

        Callbacks are called in the consumer's own thread, on which its membership depends: they
        must not block.
        """
        session = self._open()
        answer: Future[None] = Future()
        answer.set_running_or_notify_cancel()
        offsets, generation = None, None
        finished = self._streams.finished()
        if record is not None:
            name = session.name_of(record.topic, record.partition)
            if name is None:
                self._settle(answer, session, session.stale, {})
                return answer
            offsets = (Offset(record.topic, name, record.offset + 1),)
            generation = record.generation
            finished = {(record.topic, record.partition): record.offset + 1}
        session.commit(offsets, generation).add_done_callback(
            lambda done: self._settle(answer, session, done.result(), finished)
        )
        return answer

    def _settle(
        self, answer: Future[None], session: GroupMembership, outcome: Enum,
        finished: Mapping[Place, int],
    ) -> None:  # fmt: skip
        """Tell whoever has asked for a commit of these what has come of it."""
        if refused := session.why_not(outcome):
            answer.set_exception(CommitFailed(*refused))
        else:
            self._streams.are_stored(finished)
            answer.set_result(None)

    # ── The end ─────────────────────────────────────────────────────────────────────────────

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """
        Leave the group; with auto_commit, after a last commit. Iterations end. May be repeated.

        The others have its partitions at once; those of a consumer that ends without this, as in a
        crash, only when its session has timed out.

        A record that was taken and not followed by another counts as unfinished: `commit` it.
        """
        with self._lock:
            closed, self._closed = self._closed, True
            session = self._session
        if not closed and session is not None:
            self._close(session, timeout_s)
        if self._trace is not None:
            self._trace.close()

    def _close(self, session: GroupMembership, timeout_s: float) -> None:
        session.close(timeout_s)
        if session.fetchers is not None:
            session.fetchers.close()
        if self._listener is not None:
            self._listener.close(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def _open(self) -> GroupMembership:
        if self._closed:
            raise Misused(CLOSED)
        if self._session is None:
            raise Misused("the consumer has no topics yet: subscribe first")
        return self._session


def opened(trace: Path) -> TextIO:
    """A trace to append to; `BadArgument` where it cannot be written."""
    try:
        return open_trace(trace)
    except OSError as error:
        raise BadArgument(f"trace: {trace} cannot be written ({error.strerror or error})") from None


class Stream:
    """One of a consumer's streams: iterate over it, in one thread."""

    def __init__(self, streams: Streams, queue: int) -> None:
        self._streams = streams
        self._reader = RecordReader(queue)

    def poll(self, timeout_s: float | None = None) -> Record | None:
        """The next record of this stream alone, awaited as by the consumer's `poll`."""
        return self._streams.take(self._reader, timeout_s)

    def __iter__(self) -> Iterator[Record]:
        """Records for as long as the consumer is open."""
        while (record := self.poll()) is not None:
            yield record


def read_topics(topics: Topics, streams: int) -> Subscription:
    """The subscription that `subscribe` is meant to make; `InvalidSubscription` if it is none."""
    if isinstance(topics, re.Pattern):
        if topics.flags & ~re.UNICODE:
            raise BadArgument("a pattern's flags cannot be sent: write them into it, as (?i)")
        return wildcard(topics.pattern, streams)
    if isinstance(topics, str):
        return wildcard(topics, streams) if topics.startswith("^") else named({topics: streams})
    if isinstance(topics, Mapping):
        return named(topics)
    return named(dict.fromkeys(topics, streams))
