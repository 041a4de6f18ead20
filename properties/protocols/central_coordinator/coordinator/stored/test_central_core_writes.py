"""
The coordinator's core: the listeners of topics, and the writes.

References: PROTOCOLS.md, section B (the listeners; owner writes beyond 1 MB; batched offsets).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from herdproof.consuming.kafka_nodes import read_offset, read_partitions
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.central_coordinator.coordinator.directory import read_broker
from herdproof.protocols.central_coordinator.coordinator.groups import Owner
from herdproof.protocols.central_coordinator.coordinator.members.recovery import (
    owner_data,
    point_data,
    read_owner,
    read_point,
    read_subscription,
)
from herdproof.protocols.central_coordinator.events import (
    Answered,
    Ask,
    CoordinatorEvent,
    Fired,
    Send,
)
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Start,
    Stop,
)
from herdproof.zookeeper.operations import (
    Answer,
    Check,
    Create,
    Delete,
    Multi,
    NodeChange,
    Operation,
    Refusal,
    Set,
    Watched,
    Why,
)
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    PATHS,
    World,
    elected,
)

LOST = Refusal(Why.CONNECTION_LOSS)


def writes_owners(operation: Operation) -> bool:
    """Whether an operation writes a group's generation."""
    return isinstance(operation, Multi) and any(
        isinstance(write, Set | Create) and write.path == PATHS.group(GROUP) and write.data
        for write in operation.operations
    )


def spoiled(choose: Callable[[Operation], bool], answer: Answer) -> Callable[..., Answer | None]:
    """Answers the operations that are chosen in ZooKeeper's place: they are not done."""
    return lambda operation: answer if choose(operation) else None


# ── Topics ──────────────────────────────────────────────────────────────────────────────────


def test_a_new_topic_concerns_those_who_name_or_match_it() -> None:
    """TopicChangeListener: by name, by wildcard, and nobody else."""
    w = elected()
    by_name = w.register("a", '{"new": 1}', group="named")
    by_wildcard = w.register("a", "*1*ne.", group="wild")
    other = w.register("a", group="other")
    other.requests.clear()

    w.topic("new", 1)

    assert by_name.fetches.keys() == by_wildcard.fetches.keys() == {("new", "0")}
    assert not other.requests
    assert w.told(What.TOPICS_CHANGED) == [{"topic": "new", "partitions": 1, "groups": 2}]


def test_more_partitions_are_given_out() -> None:
    """TopicPartitionChangeListener: also the second time, as each read leaves a watch."""
    w = elected(partitions=1)
    a = w.register("a")

    for partitions in (2, 3, 11):
        w.topic("t", partitions)
        assert len(a.fetches) == partitions

    start = a.last(Start)
    assert isinstance(start, Start)
    assert [offset.partition for offset in start.partitions][-1] == "10"


def test_a_topic_that_goes_is_taken_away() -> None:
    """3.3: a partition that has an owner does not exist any longer."""
    w = elected(partitions=1)
    w.topic("u", 2)
    a = w.register("a", "*1*.*")
    assert len(a.fetches) == 3

    w.delete_topic("u")

    assert a.fetches.keys() == {("t", "0")}
    assert w.owners() == {("t", "0"): "a"}
    w.topic("u", 1)
    assert a.fetches.keys() == {("t", "0"), ("u", "0")}


@pytest.mark.parametrize("late", [False, True])
def test_a_watch_that_fires_while_its_node_is_read_is_not_lost(late: bool) -> None:
    """A change between a read and its answer is seen, by the next watch or by another read."""
    w = elected(partitions=1)
    a = w.register("a")
    w.hold()
    w.topic("t", 2)
    assert w.held is not None
    [read] = w.held
    w.held.clear()
    answer = w.zookeeper.perform(w.session, read.operation)
    w.zookeeper.perform(w.operator, Set(PATHS.topic("t"), _describe(3)))
    told = [Fired(watched) for watched in w.zookeeper.take_events(w.session)]
    events: list[CoordinatorEvent] = [Answered(read.number, answer), *told]

    for event in reversed(events) if late else events:
        w.give(event)
    w.release_all()

    assert len(a.fetches) == 3


def _describe(partitions: int) -> bytes:
    return json.dumps({"partitions": {str(n): [1] for n in range(partitions)}}).encode()


def test_a_topic_that_is_not_understood_stays_as_it_was() -> None:
    """A broken node takes nothing away; it is told, and read again when it changes."""
    w = elected(partitions=2)
    a = w.register("a")
    w.zookeeper.perform(w.operator, Set(PATHS.topic("t"), b"{"))
    w.give(Fired(Watched("/elsewhere", NodeChange.DATA)))

    assert len(a.fetches) == 2
    assert w.told(What.BAD_TOPIC) == [{"topic": "t"}]
    w.topic("t", 3)
    assert len(a.fetches) == 3


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["partitions", "generation", "consumer", "member", "host", "port", "1"]
            ),
            inner,
        )
    ),
    max_leaves=6,
).map(lambda value: json.dumps(value).encode())


@given(st.binary(max_size=40) | json_values)
@example(b'{"consumer": null, "member": ""}')
def test_whatever_stands_in_a_node_it_is_read(data: bytes) -> None:
    """Nodes that somebody else has written are understood or left alone: nothing is raised."""
    partitions = read_partitions(data)
    assert partitions is None or all(number.isdecimal() for number in partitions)
    assert min(read_point(data)) >= 0
    assert read_owner(data).registration
    assert read_offset(data) >= NO_OFFSET
    read_subscription(data)
    read_broker(1, data)


def test_topics_are_waited_for_where_kafka_has_not_been_yet() -> None:
    """Without /brokers/topics there is nothing to watch; it is looked for again."""
    w = World()
    w.zookeeper.perform(w.operator, Delete("/brokers/topics"))
    w.elect()
    a = w.register("a")
    assert not a.fetches

    w.make(PATHS.topic("t"), _describe(2))
    w.advance(500)

    assert len(a.fetches) == 2


# ── Writes ──────────────────────────────────────────────────────────────────────────────────


def test_a_large_write_of_owners_is_split_and_each_part_is_fenced() -> None:
    """No transaction is larger than allowed; the last has the generation, and it alone."""
    settings = Settings(max_transaction_bytes=4_096)
    w = elected(partitions=60, settings=settings)

    w.register("a")

    parts = [o for o in w.asked if isinstance(o, Multi) and _owners(o)]
    assert len(parts) > 3
    assert sum(len(_owners(part)) for part in parts) == 60
    assert [writes_owners(part) for part in parts] == [False] * (len(parts) - 1) + [True]
    for part in parts:
        assert isinstance(part.operations[0], Check)
        sizes = [len(write.path) + len(getattr(write, "data", b"")) for write in part.operations]
        assert sum(sizes) < 4_096
    assert json.loads(w.stored(PATHS.group(GROUP)) or b"")["owners_parts"] == len(parts)


WRITTEN = ("write_owners", "answered")


def test_a_write_in_parts_is_one_step_from_its_first_part_to_the_answer_of_its_last() -> None:
    """What is decided on is told before anything is sent, and answered once, when all is known."""
    w = elected(partitions=60, settings=Settings(max_transaction_bytes=4_096))
    w.register("a")
    before = len(w.steps)
    at_each: list[list[str]] = []

    def told() -> list[CoordinationStep]:
        steps = [step for step in w.steps[before:] if step.action in WRITTEN]
        begins = [step.action for step in steps].index("write_owners")
        return steps[begins:]

    def note(operation: Operation) -> None:
        if isinstance(operation, Multi) and _owners(operation):
            at_each.append([step.action for step in told()])

    w.spoil = note
    w.register("b")

    assert at_each == [["write_owners"]] * len(at_each)
    assert len(at_each) > 3
    written, answered = told()
    assert (answered.number, answered.outcome) == (written.number, "done")


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_part_whose_answer_is_lost_answers_for_the_whole_write(part: int) -> None:
    """Whichever it is, nobody knows of the write; the next one is another step."""
    w = elected(partitions=60, settings=Settings(max_transaction_bytes=4_096))
    w.register("a")
    before = len(w.steps)
    w.spoil = _answer_lost(part)
    w.register("b")
    w.advance(1_000)

    of = [(s.action, s.outcome) for s in w.steps[before:] if s.action in WRITTEN]
    lost = of.index(("answered", "unknown"))
    assert of[lost - 1] == ("write_owners", "")
    assert of[lost + 1 :][-2:] == [("write_owners", ""), ("answered", "done")]


def _answer_lost(part: int) -> Callable[[Operation], Answer | None]:
    """The answer to the transaction that writes this part of the owners is lost."""
    parts = count()

    def spoil(operation: Operation) -> Answer | None:
        if isinstance(operation, Multi) and _owners(operation) and next(parts) == part:
            return LOST
        return None

    return spoil


def _owners(multi: Multi) -> list[str]:
    """The partitions' owners that a transaction writes."""
    below = PATHS.owners_of(GROUP, "t") + "/"
    return [write.path for write in multi.operations if write.path.startswith(below)]


@pytest.mark.parametrize("part", [0, 1])
def test_a_split_write_that_breaks_off_is_begun_anew(part: int) -> None:
    """Owners of a generation that was not written count for nothing: all are written again."""
    w = elected(partitions=30, settings=Settings(max_transaction_bytes=4_096))
    a = w.register("a")
    w.spoil = _answer_lost(part)
    b = w.register("b")
    w.advance(1_000)

    assert len(a.fetches) == len(b.fetches) == 15
    assert w.generation() == 2
    stored = {json.loads(w.stored(path) or b"")["generation"] for path in _all_owners(w)}
    assert stored == {2}


def _all_owners(w: World) -> list[str]:
    return [PATHS.owner(GROUP, "t", number) for number in w.children(PATHS.owners_of(GROUP, "t"))]


@pytest.mark.parametrize("done", [False, True])
def test_a_write_of_owners_whose_answer_is_lost_is_looked_up(done: bool) -> None:
    """Whether it was done is read, not guessed: the generation goes up once, or once more."""
    w = elected()
    a = w.register("a")
    lost = [True]

    def spoil(operation: Operation) -> Answer | None:
        if lost[0] and writes_owners(operation):
            lost[0] = False
            if done:
                w.zookeeper.perform(w.session, operation)
            return LOST
        return None

    w.spoil = spoil
    b = w.register("b")
    assert not b.fetches
    w.advance(1_000)

    assert len(a.fetches) == len(b.fetches) == 2
    assert w.generation() == b.generation == 2 + done
    assert [told["why"] for told in w.told(What.REBALANCE_FAILED)] == [
        "the owners' write is unknown"
    ]


def test_a_write_in_doubt_is_not_looked_up_in_the_past() -> None:
    """A server that lags behind the write does not tell whether it was done: it catches up."""
    w = elected()
    w.register("a")
    lost = [True]

    def spoil(operation: Operation) -> Answer | None:
        if lost[0] and writes_owners(operation):
            lost[0] = False
            w.zookeeper.fall_behind(w.session)
            w.zookeeper.perform(w.session, operation, answered=False)
            return LOST
        return None

    w.spoil = spoil
    b = w.register("b")
    w.advance(1_000)

    assert b.generation == 3
    assert len(w.told(What.REBALANCE_FAILED)) == 1


def test_a_group_that_is_read_again_starts_at_what_is_stored() -> None:
    """What somebody says amid a write in doubt is forgotten with the rest, and never written."""
    w = elected(1, settings=Settings(rebalance_backoff_ms=2_000, offset_flush_ms=5_000))
    a = w.register("a")
    w.send(a, Commit((Offset("t", "0", 50),)))
    w.spoil = spoiled(writes_owners, LOST)
    w.topic("t", 2)
    w.spoil = lambda _: None
    a.fetches = {("t", "0"): 60}  # as if it had heard of no Stop
    w.advance(1_000)  # a ping
    assert w.core.offsets.unwritten == {GROUP: {("t", "0"): 60}}

    a.fetches.clear()
    w.advance(1_000)

    assert a.generation == 2
    assert a.fetches["t", "0"] == 50
    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"50"


def test_a_write_of_owners_over_somebody_elses_is_refused_and_read_again() -> None:
    """The group's node is written under the version that is known: a race is no lost update."""
    w = elected()
    a = w.register("a")
    w.send(a, Commit((Offset("t", "0", 50),)))
    reset = Multi(
        (Set(PATHS.group(GROUP), point_data(1, 1, 1, 5_000)),
         Set(PATHS.offset(GROUP, "t", "0"), b"3"))
    )  # fmt: skip
    w.zookeeper.perform(w.operator, reset)

    b = w.register("b")
    assert not b.fetches
    assert w.told(What.REBALANCE_FAILED)[-1]["why"] == "the owners' write is conflict"
    w.advance(1_000)

    assert a.fetches["t", "0"] == 3
    assert len(b.fetches) == 2


def test_a_write_of_offsets_whose_answer_is_lost_is_done_again() -> None:
    """To store an offset twice does no harm, so it is tried again, and answered once."""
    w = elected()
    a = w.register("a")
    lost = [2]

    def spoil(operation: Operation) -> Answer | None:
        if lost[0] and isinstance(operation, Multi):
            lost[0] -= 1
            w.zookeeper.perform(w.session, operation)
            return LOST
        return None

    w.spoil = spoil
    w.send(a, Commit((Offset("t", "0", 9),)))
    assert a.count(CommitResponse) == 0
    w.advance(500)

    assert a.last(CommitResponse) == CommitResponse(ErrorCode.NONE)
    assert a.count(CommitResponse) == 1
    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"9"


@pytest.mark.parametrize("part", ["consumers", "offsets", "owners", "groups"])
def test_what_stands_there_from_elsewhere_is_written_over(part: str) -> None:
    """Nodes that are there, or are gone, unlike the core believed, are found out and put right."""
    w = elected()
    a = w.register("a")
    w.advance(2_000)
    if part == "offsets":
        for number in w.children("/consumers/g/offsets/t"):
            w.zookeeper.perform(w.operator, Delete(f"/consumers/g/offsets/t/{number}"))
        w.zookeeper.perform(w.operator, Delete("/consumers/g/offsets/t"))
    elif part == "owners":
        w.zookeeper.perform(w.operator, Delete("/consumers/g/owners/t/3"))
    elif part == "groups":
        w.make("/herdproof/groups/g/subscriptions/b", b"old")
    else:
        w.make("/consumers/g/owners/u/0", owner_data(Owner("x", "0-1"), 0))
        w.topic("u", 1)
    a.fetches["t", "0"] = 12

    b = w.register("b", '{"t": 1, "u": 1}')
    w.advance(2_000)

    assert b.error is ErrorCode.NONE
    assert b.fetches
    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"12"
    assert w.stored(PATHS.subscription(GROUP, "b")) == b'{"t": 1, "u": 1}'
    assert not w.told(What.REBALANCE_FAILED)


def test_what_is_gone_already_need_not_be_deleted() -> None:
    """An owner's node that somebody else has deleted does not keep a rebalance from succeeding."""
    w = elected(partitions=1)
    w.topic("u", 2)
    a = w.register("a", "*1*.*")
    w.zookeeper.perform(w.operator, Delete(PATHS.owner(GROUP, "u", "1")))

    w.delete_topic("u")

    assert a.fetches.keys() == {("t", "0")}
    assert w.owners() == {("t", "0"): "a"}
    assert not w.told(What.REBALANCE_FAILED)


def test_commits_that_come_during_a_write_are_written_together() -> None:
    """At most one write of a group is under way; what comes meanwhile is one more."""
    w = elected()
    a = w.register("a")
    w.hold()
    w.asked.clear()

    for offset in range(1, 6):
        w.send(a, Commit((Offset("t", "0", offset),)), correlation_id=offset)
    assert len(w.asked) == 1
    w.release_all()

    assert len(w.asked) == 2
    assert a.count(CommitResponse) == 5
    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"5"


def test_an_offset_whose_answer_is_lost_is_not_stored_after_a_higher_one() -> None:
    """What a later write has overtaken is not tried again: no stored offset goes back."""
    w = elected(settings=Settings(zookeeper_retries=0))
    a = w.register("a")
    w.hold()
    w.send(a, Commit((Offset("t", "0", 2), Offset("t", "1", 7))), correlation_id=1)
    w.send(a, Commit((Offset("t", "0", 3),)), correlation_id=2)
    w.spoil = lambda operation: LOST if isinstance(operation, Multi) else None
    w.release()
    w.spoil = lambda _: None
    w.release_all()
    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"3"

    w.advance(5_000)

    assert w.stored(PATHS.offset(GROUP, "t", "0")) == b"3"
    assert w.stored(PATHS.offset(GROUP, "t", "1")) == b"7"


def test_a_failed_flush_fails_the_rebalance_and_loses_nothing() -> None:
    """Owners are not written while an offset of the old ones is not known to be stored."""
    w = elected(settings=Settings(zookeeper_retries=0))
    a = w.register("a")
    a.fetches["t", "3"] = 30

    def offsets(operation: Operation) -> bool:
        return isinstance(operation, Multi) and "/offsets/" in operation.operations[-1].path

    w.spoil = spoiled(offsets, LOST)
    b = w.register("b")
    assert not b.fetches
    assert set(w.owners().values()) == {"a"}
    w.spoil = lambda _: None
    w.advance(1_000)

    assert b.fetches["t", "3"] == 30


def test_effects_come_in_the_order_in_which_they_must_happen() -> None:
    """A member's Start is sent in the event that brings the answer to the owners' write."""
    w = elected()
    w.hold()
    a = w.register("a")
    while not any(writes_owners(ask.operation) for ask in w.held or ()):
        w.release()
    assert a.count(Stop) == 1
    assert a.count(Start) == 0

    w.effects.clear()
    w.release()

    assert [type(effect) for effect in w.effects if isinstance(effect, Send | Ask)] == [Send]
    assert a.count(Start) == 1
