"""
The coordinator's core: who may say what is consumed, and what is stored of it.

References: PROTOCOLS.md, section B (rulings 7 and 8) and the contract (Fenced, Monotone).
"""

from __future__ import annotations

import pytest

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.coordinator.groups import Phase
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Start,
)
from herdproof.zookeeper.operations import Multi, Refusal, Why
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    PATHS,
    Consumer,
    World,
    elected,
)

# ── Offsets ─────────────────────────────────────────────────────────────────────────────────


def commit(w: World, consumer: Consumer, *offsets: Offset, **header: int) -> ErrorCode | None:
    """Let a user commit; the answer's error, if there is an answer yet."""
    before = len(consumer.requests)
    w.send(consumer, Commit(offsets), correlation_id=77, **header)
    answers = [m for m in consumer.requests[before:] if isinstance(m, CommitResponse)]
    return answers[0].error_code if answers else None


def test_a_commit_is_answered_once_it_is_stored() -> None:
    """CommitResponse comes after ZooKeeper's answer to the write, with the commit's id."""
    w = elected()
    a = w.register("a")
    w.hold()

    assert commit(w, a, Offset("t", "0", 3), Offset("t", "1", 4)) is None
    w.release_all()

    assert a.last(CommitResponse) == CommitResponse(ErrorCode.NONE)
    assert a.frames[-1].correlation_id == 77
    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"3"
    assert w.stored(PATHS.offset(GROUP, "t", "1")) == b"4"


def test_a_commit_of_what_another_owns_is_refused_whole() -> None:
    """A commit is accepted only from the partition's owner; all of its offsets, or none."""
    w = elected()
    a, b = w.register("a"), w.register("b")
    assert ("t", "0") in a.fetches

    error = commit(w, b, Offset("t", "3", 9), Offset("t", "0", 9))

    assert error is ErrorCode.STALE_GENERATION
    w.advance(5_000)
    assert w.stored(PATHS.offset(GROUP, "t", "3")) == b"0"


NOT_ITS_OWN = {
    "a partition that does not exist": ("t", "99"),
    "a topic that does not exist": ("nowhere", "0"),
    "a topic that it has not subscribed to": ("unwanted", "0"),
    "a topic that another member has subscribed to": ("others", "0"),
    "a partition of another owner": ("t", "3"),
}


def owning() -> tuple[World, Consumer]:
    """A member that owns a half of "t", beside another that owns the rest, and all of "others"."""
    w = elected()
    for topic in ("unwanted", "others"):
        w.topic(topic, 1)
    a = w.register("a")
    w.register("b", '{"t": 1, "others": 1}')
    assert a.fetches.keys() == {("t", "0"), ("t", "1")}
    return w, a


def stored(w: World, partition: tuple[str, str]) -> bytes | None:
    """The stored offset of a partition, after all that was told is written."""
    w.advance(5_000)
    return w.stored(PATHS.offset(GROUP, *partition))


@pytest.mark.parametrize("partition", NOT_ITS_OWN.values(), ids=NOT_ITS_OWN)
def test_a_commit_of_what_its_sender_does_not_own_is_refused_whole(
    partition: tuple[str, str],
) -> None:
    """A commit names its sender's own partitions alone; else none of its offsets is stored."""
    w, a = owning()
    before = stored(w, partition)

    error = commit(w, a, Offset("t", "0", 9), Offset(*partition, 9))

    assert error is ErrorCode.STALE_GENERATION
    assert stored(w, ("t", "0")) == b"0"
    assert stored(w, partition) == before
    assert len(w.told(What.COMMIT_REFUSED)) == 1


@pytest.mark.parametrize("partition", NOT_ITS_OWN.values(), ids=NOT_ITS_OWN)
@pytest.mark.parametrize("stops", [False, True], ids=["ping", "stop"])
def test_an_answer_stores_nothing_of_what_its_sender_does_not_own(
    partition: tuple[str, str], stops: bool
) -> None:
    """Of the offsets in an answer those of its sender's own partitions are stored, no other."""
    w, a = owning()
    before = stored(w, partition)

    a.fetches = {("t", "0"): 7, partition: 9}
    if stops:
        w.register("c")
    else:
        w.advance(1_000)

    assert stored(w, ("t", "0")) == b"7"
    assert stored(w, partition) == before


@pytest.mark.parametrize("generation", [0, 1, 3, -1])
def test_a_commit_of_another_generation_is_refused(generation: int) -> None:
    """What was consumed in an older generation, or in none that there is, is not stored."""
    w, a = owning()
    assert a.generation == 2

    assert commit(w, a, Offset("t", "0", 9), generation=generation) is ErrorCode.STALE_GENERATION

    assert stored(w, ("t", "0")) == b"0"


def test_a_commit_of_a_former_generation_is_refused() -> None:
    """A commit is accepted only in the current generation, even from the same owner."""
    w = elected()
    a = w.register("a")
    w.register("b")
    assert a.generation == 2

    assert commit(w, a, Offset("t", "0", 9), generation=1) is ErrorCode.STALE_GENERATION
    assert commit(w, a, Offset("t", "0", 9)) is ErrorCode.NONE


def test_offsets_of_a_former_generation_are_not_taken_from_answers() -> None:
    """What a response says of another generation than the present is not stored."""
    w = elected()
    a = w.register("a")
    w.register("b")
    a.mute = True
    w.advance(1_000)

    a.generation -= 1
    a.fetches["t", "0"] = 50
    w.speak(a)
    w.advance(2_000)

    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"0"


def test_a_commit_between_stop_and_handover_belongs_to_the_old_generation() -> None:
    """Until the handover begins a stopped owner may commit; then nobody may."""
    w = elected()
    a = w.register("a")
    b = w.register("b", mute=True)
    assert w.core.groups[GROUP].phase is Phase.STOPPING

    assert commit(w, a, Offset("t", "3", 8)) is ErrorCode.NONE
    w.hold()
    w.answer(b)
    assert w.core.groups[GROUP].phase is Phase.WRITING
    assert commit(w, a, Offset("t", "3", 9)) is ErrorCode.STALE_GENERATION
    w.release_all()
    w.speak(b)

    assert b.fetches["t", "3"] == 8


def test_offsets_never_go_back() -> None:
    """What is stored is never lower than what stood there, whoever says so."""
    w = elected()
    a = w.register("a")
    assert commit(w, a, Offset("t", "0", 10)) is ErrorCode.NONE

    assert commit(w, a, Offset("t", "0", 4)) is ErrorCode.NONE
    a.fetches["t", "0"] = 3
    w.advance(5_000)

    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"10"


@pytest.mark.parametrize("offset", [Offset("t", "0", -5), Offset("t", "zero", 1)])
def test_a_commit_that_makes_no_sense_is_refused(offset: Offset) -> None:
    """A negative offset, or a partition that can be none, is MALFORMED, and nothing is stored."""
    w = elected()
    a = w.register("a")

    assert commit(w, a, Offset("t", "1", 9), offset) is ErrorCode.MALFORMED

    w.advance(5_000)
    assert w.stored(PATHS.offset(GROUP, "t", "1")) == b"0"


def test_a_partition_may_be_named_with_its_broker() -> None:
    """The draft's "broker-partition" is understood."""
    w = elected()
    a = w.register("a")

    assert commit(w, a, Offset("t", "7-2", 9)) is ErrorCode.NONE

    assert w.stored(PATHS.offset(GROUP, "t", "2")) == b"9"


def test_who_has_not_registered_cannot_commit() -> None:
    """A commit before a registration is NOT_REGISTERED."""
    w = elected()
    stranger = Consumer(w.open(), "stranger")
    w.consumers[stranger.channel] = stranger

    assert commit(w, stranger, Offset("t", "0", 9)) is ErrorCode.NOT_REGISTERED


def test_offsets_of_pings_are_written_in_batches() -> None:
    """Many answers in a while are one write, and without auto_commit there is none."""
    w = elected(settings=Settings(offset_flush_ms=3_500))
    a = w.register("a")
    quiet = w.register("quiet", auto_commit=False)
    w.asked.clear()
    for _ in range(4):
        for consumer in (a, quiet):
            consumer.fetches = {p: offset + 1 for p, offset in consumer.fetches.items()}
        w.advance(1_000)
    w.advance(1_000)

    writes = [operation for operation in w.asked if isinstance(operation, Multi)]
    assert len(writes) == 1
    assert {write.path for write in writes[0].operations[1:]} == {
        PATHS.offset(GROUP, *partition) for partition in a.fetches
    }
    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"3"  # as the last ping before it said


def test_a_commit_that_nobody_knows_of_is_not_called_stored() -> None:
    """Without an answer of ZooKeeper's, after its retries, a commit is answered NOT_STORED."""
    w = elected(settings=Settings(zookeeper_retries=2, zookeeper_backoff_ms=100))
    a = w.register("a")
    w.spoil = lambda o: Refusal(Why.CONNECTION_LOSS) if isinstance(o, Multi) else None
    w.asked.clear()

    assert commit(w, a, Offset("t", "0", 9)) is None
    w.advance(200)

    assert a.last(CommitResponse) == CommitResponse(ErrorCode.NOT_STORED)
    assert sum(isinstance(operation, Multi) for operation in w.asked) == 3
    w.spoil = lambda _: None
    w.advance(2_000)  # it was not lost, though
    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"9"


def test_a_write_that_failed_does_not_undo_what_came_after_it() -> None:
    """Offsets that could not be written wait for the next write, where none is higher."""
    w = elected(settings=Settings(zookeeper_retries=0, offset_flush_ms=5_000))
    a = w.register("a")
    w.spoil = lambda o: Refusal(Why.CONNECTION_LOSS) if isinstance(o, Multi) else None
    w.hold()
    commit(w, a, Offset("t", "0", 5), Offset("t", "1", 5))
    a.fetches["t", "0"] = 9
    w.advance(1_000)  # a ping says so

    w.release_all()
    w.spoil = lambda _: None
    w.advance(6_000)

    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"9"
    assert w.stored(PATHS.offset(GROUP, "t", "1")) == b"5"


# ── Starts that were resolved by reset, though an offset is stored ──────────────────────────


def restarted(w: World, a: Consumer) -> int:
    """What the next Start says of partition 0, after a rebalance."""
    w.topic("t", len(w.core.topics.topics["t"]) + 1)
    start = a.last(Start)
    assert isinstance(start, Start)
    return next(o.offset for o in start.partitions if o.partition == "0")


def test_a_start_above_the_stored_offset_is_stored() -> None:
    """The log begins later than it did: what a reset finds is stored, and handed on."""
    w = elected(1)
    w.make("/consumers/g/offsets/t/0", b"50")
    a = w.register("a")
    assert a.fetches == {("t", "0"): 50}

    assert commit(w, a, Offset("t", "0", 100)) is ErrorCode.NONE
    a.fetches[("t", "0")] = 100

    assert w.stored("/consumers/g/offsets/t/0") == b"100"
    assert restarted(w, a) == 100


def test_a_start_below_the_stored_offset_is_accepted_and_not_stored() -> None:
    """
    The log ends before the stored offset, which never goes back: its consumer may go on all the
    same, but until it has come past that offset every Start names it again.

    Reference: docs/coordinator.md, "Offsets that do not fit the log".
    """
    w = elected(1)
    w.make("/consumers/g/offsets/t/0", b"5000")
    a = w.register("a")

    assert commit(w, a, Offset("t", "0", 100)) is ErrorCode.NONE
    a.fetches[("t", "0")] = 120
    w.advance(3_000)
    assert w.stored("/consumers/g/offsets/t/0") == b"5000"
    assert restarted(w, a) == 5000

    a.fetches[("t", "0")] = 5001
    w.advance(3_000)
    assert w.stored("/consumers/g/offsets/t/0") == b"5001"
    assert restarted(w, a) == 5001


def test_a_commit_that_waits_for_another_is_not_stored_if_that_is_not() -> None:
    """A second commit of the same offset writes nothing itself: the first one's write counts."""
    w = elected(settings=Settings(zookeeper_retries=2, zookeeper_backoff_ms=100))
    a = w.register("a")
    w.spoil = lambda o: Refusal(Why.CONNECTION_LOSS) if isinstance(o, Multi) else None

    commit(w, a, Offset("t", "0", 9))
    commit(w, a, Offset("t", "0", 9))
    w.advance(200)

    answers = [m for m in a.requests if isinstance(m, CommitResponse)]
    assert answers == [CommitResponse(ErrorCode.NOT_STORED)] * 2
