"""
The fetchers: records of the assigned partitions, from real Kafka brokers into the streams' queues.

One thread has one client of Kafka's (librdkafka, which fetches from each broker in a thread of its
own), assigned by hand. What the core wants is put to it as the core's own effects, in order; what
it has to tell the core it posts. It never decides: whether a record may still be handed out, the
streams say.

A partition without a stored offset, or whose offset is out of range, begins where the reset says:
that is looked up, told as `Resolved`, and waits for `Deliver`. With no reset it is an error.

Source: `004` (ConsumerFetcherManager) and `002` (start fetchers); *ours*: manual assignment.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from herdproof.consuming.events import Deliver, Resolved, StartFetchers, StopFetchers
from herdproof.consuming.fetching.kafka_watch import KafkaWatch
from herdproof.consuming.fetching.standstill import Standstill
from herdproof.consuming.fetching.streams import Place, Streams
from herdproof.consuming.fetching.watermarks import silent
from herdproof.consuming.offsets import NO_OFFSET, Offset, OffsetReset, number_of
from herdproof.errors import CallerError, HerdError, PeerError
from herdproof.record import Record
from herdproof.troubles import Troubles

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pause:
    """Fetch no more of a partition, or again; the application wants it so."""

    place: Place
    generation: int
    is_paused: bool


@dataclass(frozen=True)
class Seek:
    """Go on from this offset of a partition; the application wants it so."""

    place: Place
    generation: int
    offset: int


Order = StartFetchers | StopFetchers | Deliver | Pause | Seek

POLL_S = 0.05
"""Longest wait of a poll for a record; an order waits as long."""
FULL_S = 0.005
"""Wait while queues are full: they may be emptied at any time."""
BATCH = 2_000
"""Number of records that are taken at once, or as many as a queue holds."""
LOOK_UP_S = 2.0
"""Longest time that Kafka may take to say where a partition begins and ends."""
AGAIN_S = 0.5
"""Wait before Kafka is asked again."""
LOOK_S = 1.0
"""Most time that counts between two looks at what the application does."""
CLOSING_S = 10.0
"""Longest wait of `close`; librdkafka may be in the middle of a request."""

FATAL = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._FATAL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Refusals that waiting does not change: the application is told."""


class KafkaUnusable(PeerError):
    """Kafka refuses this consumer, or its settings for Kafka's client are wrong."""


class ApplicationAway(CallerError):
    """The application has left records waiting for longer than `max_poll_interval_s`."""


class Fetchers:
    """
    The fetchers of one consumer.

    `settings` are librdkafka's ("bootstrap.servers" among them; `KafkaUnusable`). `post` takes
    what the core is to be told, `fail` the error that ends it; both from the fetchers' thread.
    `topics` are those that it would be a mistake not to find; what is wrong goes to `troubles`. To
    leave records waiting for `max_poll_interval_s` is an error that ends it (None: never).
    """

    def __init__(
        self, settings: Mapping[str, str | int | float | bool], reset: OffsetReset | None,
        streams: Streams, post: Callable[[Resolved], None], fail: Callable[[HerdError], None],
        troubles: Troubles | None = None, topics: Sequence[str] = (),
        max_poll_interval_s: float | None = None,
    ) -> None:  # fmt: skip
        self.rounds = 0
        """Number of times that the thread has come round; who stands still reads nothing."""
        self._watch = KafkaWatch(settings, topics, troubles or Troubles(log))
        self._max_poll_interval_s = max_poll_interval_s
        self._neglected: dict[int, Standstill] = {}
        self._reset = reset
        self._streams = streams
        self._batch = min(BATCH, streams.max_records)
        self._post = post
        self._fail = fail
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._generation = 0
        self._queue_of: dict[Place, int] = {}
        self._names: dict[Place, str] = {}
        self._look_up: dict[Place, float] = {}
        self._begins: dict[Place, int] = {}
        self._paused: set[int] = set()
        """Queues that are full."""
        self._held: set[Place] = set()
        """Partitions that the application has paused."""
        self._found: set[Place] = set()
        try:
            conf = {**settings, **_OURS, "error_cb": self._troubled}
            self._kafka = Consumer(conf, logger=silent)  # `_troubled` says what matters
        except (KafkaException, TypeError, ValueError) as problem:
            reason = problem.args[0].str() if _is_kafkas(problem) else problem
            raise KafkaUnusable(f"Kafka's client cannot be set up so: {reason}") from problem
        self._thread = threading.Thread(target=self._run, name="herdproof-fetchers", daemon=True)

    def start(self) -> None:
        """Begin to carry orders out."""
        self._thread.start()

    def order(self, order: Order) -> None:
        """Hand over an order of the core; orders are carried out in turn, soon."""
        self._orders.put(order)

    def close(self) -> None:
        """Fetch no more, and end the connections to Kafka."""
        self._orders.put(None)
        if self._thread.is_alive():
            self._thread.join(CLOSING_S)
        else:
            self._kafka.close()

    # ── The thread ──────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            while self._obey():
                self.rounds += 1
                self._look_at_application()
                self._resolve()
                self._watch.look(self._kafka)
                if self._has_room():
                    self._fetch()
                else:
                    time.sleep(FULL_S)
        except BaseException as problem:  # of an exit in a thread Python says nothing
            log.exception("The fetchers failed.")
            self._fail(KafkaUnusable(f"the fetchers failed: {problem}"))
        finally:
            self._kafka.close()

    def _look_at_application(self) -> None:
        """End it where an application has not come back for too long: others are to go on."""
        if self._max_poll_interval_s is None:
            return
        found = self._streams.neglected()
        self._neglected = {q: self._neglected.get(q) or Standstill(LOOK_S) for q in found}
        longest_s = max((self._neglected[q].lasts_s(asks) for q, asks in found.items()), default=0)
        if longest_s > self._max_poll_interval_s:
            self._fail(
                ApplicationAway(
                    f"the application has not asked for a record for {longest_s:.0f} s, though "
                    f"some wait: this consumer has left, and others of its group go on with its "
                    f"partitions; make a new one, and ask more often or with a higher "
                    f"max_poll_interval_s ({self._max_poll_interval_s:g})"
                )
            )

    def _obey(self) -> bool:
        """Carry out the orders that wait; False once it is to end."""
        with contextlib.suppress(Empty):
            while True:
                match self._orders.get_nowait():
                    case None:
                        return False
                    case StopFetchers():
                        self._stop()
                    case StartFetchers() as start:
                        self._start(start)
                    case Deliver() as deliver:
                        self._begin(deliver)
                    case Pause() as pause if pause.generation == self._generation:
                        self._pause(pause.place, pause.is_paused)
                    case Seek() as seek if seek.generation == self._generation:
                        self._seek(seek.place, seek.offset)
        return True

    def _stop(self) -> None:
        self._kafka.unassign()
        for table in (self._queue_of, self._names, self._look_up, self._begins):
            table.clear()
        self._paused.clear()
        self._held.clear()

    def _pause(self, place: Place, is_paused: bool) -> None:
        """Fetch no more of a partition, or again; unless its queue is full anyhow."""
        (self._held.add if is_paused else self._held.discard)(place)
        is_fetched = place not in self._look_up and place not in self._begins
        if is_fetched and self._queue_of[place] not in self._paused:
            (self._kafka.pause if is_paused else self._kafka.resume)([TopicPartition(*place)])

    def _seek(self, place: Place, offset: int) -> None:
        """Fetch from there; nothing of before comes after this."""
        with contextlib.suppress(KafkaException):  # it is not fetched at present: out of range
            self._kafka.incremental_unassign([TopicPartition(*place)])
        self._look_up.pop(place, None)
        self._begins.pop(place, None)
        self._streams.fetches_from_there(place)
        self._assign(place, offset)

    def _assign(self, place: Place, offset: int) -> None:
        """Fetch a partition, if nothing is in the way of that."""
        self._kafka.incremental_assign([TopicPartition(*place, offset)])
        if place in self._held or self._queue_of[place] in self._paused:
            self._kafka.pause([TopicPartition(*place)])

    def _start(self, start: StartFetchers) -> None:
        self._stop()
        self._generation = start.generation
        known: list[TopicPartition] = []
        for offset, queue in zip(start.partitions, start.queues, strict=True):
            place = offset.topic, number_of(offset.partition)
            self._queue_of[place] = queue
            self._names[place] = offset.partition
            if offset.offset == NO_OFFSET:
                self._look_up[place] = 0.0
            else:
                known.append(TopicPartition(*place, offset.offset))
        self._find_leaders((partition.topic, partition.partition) for partition in known)
        self._kafka.assign(known)

    def _find_leaders(self, places: Iterable[Place]) -> None:
        """
        Ask who leads these partitions, where that is not known.

        librdkafka would ask only once a second, and for a partition that was added to a topic that
        it knows only every five minutes.
        """
        for topic in sorted({place[0] for place in places if place not in self._found}):
            self.rounds += 1  # each may take a while
            try:
                told = self._kafka.list_topics(topic, LOOK_UP_S).topics.get(topic)
            except KafkaException as problem:
                self._troubled(problem.args[0])
                return  # it asks by itself, later
            if told is not None:
                self._found |= {(topic, partition) for partition in told.partitions}

    def _begin(self, deliver: Deliver) -> None:
        """A resolved start is stored: fetch from it on."""
        place = deliver.partition.topic, number_of(deliver.partition.partition)
        offset = self._begins.pop(place, None)
        if deliver.generation != self._generation or offset is None:
            return
        self._streams.resolved(place, offset)
        self._assign(place, offset)

    def _resolve(self) -> None:
        """Look up where partitions begin that have no offset."""
        now = time.monotonic()
        for place in [place for place, due in self._look_up.items() if due <= now]:
            self.rounds += 1
            try:
                low, high = self._kafka.get_watermark_offsets(TopicPartition(*place), LOOK_UP_S)
            except KafkaException as problem:
                self._look_up[place] = time.monotonic() + AGAIN_S
                self._troubled(problem.args[0])
                self._find_leaders([place])
                return  # orders may wait
            del self._look_up[place]
            self._begins[place] = low if self._reset is OffsetReset.SMALLEST else high
            begin = Offset(place[0], self._names[place], self._begins[place])
            self._post(Resolved(begin, self._generation))

    def _fetch(self) -> None:
        """Take what has come, and put it into the queues."""
        # Each call gives Python's lock away, and a busy application gives it back late: so few.
        messages = self._kafka.consume(self._batch, 0)
        if not messages:
            first = self._kafka.poll(FULL_S if self._paused else POLL_S)
            messages = [] if first is None else [first, *self._kafka.consume(self._batch, 0)]
        batch: dict[int, list[Record]] = {}
        for message in messages:
            self._sort(message, batch)
        for queue, records in batch.items():
            self._streams.put(self._generation, queue, records)

    def _sort(self, message: Message, batch: dict[int, list[Record]]) -> None:
        """Put a record to those of its queue; or see what is the matter."""
        topic, partition = message.topic(), message.partition()
        problem = message.error()
        if topic is None or partition is None:
            if problem is not None:
                self._troubled(problem)
            return
        queue = self._queue_of.get((topic, partition))
        if problem is None:
            if queue is not None:
                batch.setdefault(queue, []).append(record_of(message, self._generation))
        elif problem.code() == KafkaError._AUTO_OFFSET_RESET and queue is not None:
            self._out_of_range((topic, partition))
        else:
            self._troubled(problem)

    def _out_of_range(self, place: Place) -> None:
        """The offset to fetch from does not exist any more, or not yet."""
        if self._reset is None:
            what = "{}-{}: the offset to go on from is out of range".format(*place)
            self._fail(KafkaUnusable(f"{what}, and auto_offset_reset is none"))
            return
        log.warning(
            "%s-%d: the offset to go on from is out of range: it begins at the %s one",
            *place, self._reset.value,
        )  # fmt: skip
        self._kafka.incremental_unassign([TopicPartition(*place)])
        self._look_up[place] = 0.0

    def _has_room(self) -> bool:
        """
        True if any queue takes records; while only some do, fetching for the others is paused.

        A pause throws away what was fetched ahead, so it is the last resort.
        """
        queues = set(self._queue_of.values())
        full = {queue for queue in queues if self._streams.is_full(queue)}
        if full and full == queues:
            return False
        for queue in full - self._paused:
            self._paused.add(queue)
            self._kafka.pause(self._fetched_to(queue))
        for queue in [queue for queue in self._paused if not self._streams.is_full(queue, 0.5)]:
            self._paused.remove(queue)
            self._kafka.resume(self._fetched_to(queue))
        return True

    def _fetched_to(self, queue: int) -> list[TopicPartition]:
        """The partitions that are fetched for a queue."""
        return [
            TopicPartition(*place)
            for place, its in self._queue_of.items()
            if its == queue
            and place not in self._held
            and place not in self._look_up
            and place not in self._begins
        ]

    def _troubled(self, problem: KafkaError) -> None:
        """Say what Kafka's client says; what is final ends it."""
        if problem.code() in FATAL or problem.fatal():
            self._fail(KafkaUnusable(f"Kafka refuses: {problem.str()}"))
            return
        self._watch.troubled(problem)


_OURS: Mapping[str, str | int | bool] = {
    "max.poll.interval.ms": 86_400_000,  # no group of Kafka's is joined
    "enable.auto.commit": False,  # offsets go to the coordinator
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # the reset is stored before it takes effect
    "enable.partition.eof": False,
    "allow.auto.create.topics": False,
}
"""Settings that must be so, whatever the user sets beside."""


def record_of(message: Message, generation: int) -> Record:
    """A fetched record, as the application gets it."""
    kind, timestamp_ms = message.timestamp()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return Record(
        topic,
        partition,
        offset,
        message.key(),
        message.value(),
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        tuple((name, _bytes(value)) for name, value in headers_of(message)),
        generation,
    )


def headers_of(message: Message) -> list[tuple[str, str | bytes | None]]:
    """The headers of a record, in order; one name may come twice."""
    headers = message.headers() or []
    return list(headers.items()) if isinstance(headers, dict) else headers


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _is_kafkas(problem: Exception) -> bool:
    return isinstance(problem, KafkaException)
