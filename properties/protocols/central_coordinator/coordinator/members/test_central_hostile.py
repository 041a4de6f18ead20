"""
The coordinator's core among hostile consumers: nothing that one names holds up the others.

What one event takes is this thread's own time, so that a busy machine makes no difference.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

import pytest

from herdproof.consuming.assignment import assign
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.coordinator import outbox
from herdproof.protocols.central_coordinator.coordinator.groups import Group, Making, Phase
from herdproof.protocols.central_coordinator.coordinator.rebalancing import matches, planner
from herdproof.protocols.central_coordinator.coordinator.rebalancing.planner import said_in
from herdproof.protocols.central_coordinator.events import (
    CoordinatorEffect,
    CoordinatorEvent,
    Tick,
)
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.server.server import HEAD_BYTES
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire import version1
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode, Frame, Start, Stop
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    PATHS,
    World,
    elected,
    phase,
)

LONGEST_S = 0.05
"""How long one event may take."""
TOPICS = 500
SLOW = "(?:.?){{{0}}}x"
"""A regex whose matching takes the longer the larger a number: a tenth of a millisecond."""


@contextmanager
def measured(w: World) -> Iterator[list[float]]:
    """How long each event takes meanwhile, without the test run's own garbage."""
    took: list[float] = []
    receive = w.core.receive

    def timed(event: CoordinatorEvent, now_ms: int) -> list[CoordinatorEffect]:
        began = thread_time()
        effects = receive(event, now_ms)
        took.append(thread_time() - began)
        return effects

    w.core.receive = timed  # type: ignore[method-assign]
    gc.disable()
    try:
        yield took
    finally:
        gc.enable()
    w.core.receive = receive  # type: ignore[method-assign]


def many_topics(w: World, number: int = TOPICS) -> None:
    """Make many topics, before anybody is elected."""
    for each in range(number):
        described = json.dumps({"partitions": {"0": [1]}}).encode()
        w.make(PATHS.topic(f"a-topic-with-a-longer-name-{each:05}"), described)


def crowded(wildcards: range) -> tuple[World, list[float]]:
    """A group whose members have slow wildcards; how long each event took until it is settled."""
    w = World()
    many_topics(w)
    w.elect()
    with measured(w) as took:
        members = [
            w.register(f"c{number}", f"*1*{SLOW.format(number)}|a.*") for number in wildcards
        ]
        w.advance(2_000)
    assert all(member.error is ErrorCode.NONE for member in members)
    assert sum(len(member.fetches) for member in members) == TOPICS
    return w, took


def test_no_wildcard_holds_the_others_up() -> None:
    """Many wildcards that take long to match with many topics: no event takes long."""
    w, took = crowded(range(400, 404))

    assert max(took) < LONGEST_S
    members = [
        (m.consumer_id, m.registration, m.subscription)
        for m in w.core.groups[GROUP].members.values()
    ]
    topics = w.core.topics.topics
    assert w.core.rebalancer.plan(w.core.groups[GROUP]) == assign(topics, members)


def test_without_portions_a_wildcard_holds_the_others_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above sees is the portions' doing, however fast the machine is."""
    _, in_portions = crowded(range(602, 604))
    monkeypatch.setattr(matches, "PORTION", 10**12)

    _, at_once = crowded(range(604, 606))

    assert max(at_once) > 5 * max(in_portions)


def test_a_portion_is_not_matched_anew_at_every_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many frames come in one round of the loop, they are not held up by one each."""
    w = World()
    many_topics(w, 20)
    w.elect()
    monkeypatch.setattr(matches, "PORTION", 1)
    w.core.context.matches.run()
    w.register("c", "*1*.*")
    [row] = w.core.context.matches.rows.values()
    before = len(row)

    for _ in range(10):
        w.consult()

    assert len(row) == before
    w.advance(0)
    assert len(row) == 20


def test_a_topic_is_known_once_it_is_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that appears is assigned after it was matched with every wildcard, in portions."""
    w = elected(partitions=1)
    members = [w.register(f"c{number}", f"*1*{number}|[tu].*") for number in range(4)]
    monkeypatch.setattr(matches, "PORTION", 1)  # one match for each event
    w.core.context.matches.run()

    w.topic("u", 4)
    assert "u" not in w.core.topics.topics
    assert w.wake_ms == w.now_ms
    w.advance(3_000)

    assert w.core.topics.topics["u"] == tuple("0123")
    assert sorted(w.fetchers()) == [("t", "0"), *(("u", str(n)) for n in range(4))]
    assert not any(member.closed for member in members)


def test_a_topic_that_goes_while_it_is_matched_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a topic that is deleted meanwhile nothing is left; made anew, it is as it is then."""
    w = elected(partitions=1)
    for number in range(4):
        w.register(f"c{number}", f"*1*{number}|[tu].*")
    monkeypatch.setattr(matches, "PORTION", 1)
    w.core.context.matches.run()
    w.topic("u", 4)
    w.delete_topic("u")
    w.advance(3_000)
    assert "u" not in w.core.topics.topics

    w.topic("u", 2)
    w.advance(3_000)

    assert w.core.topics.topics["u"] == tuple("01")
    assert {partition for topic, partition in w.fetchers() if topic == "u"} == {"0", "1"}


def test_who_leaves_while_its_wildcard_is_matched_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A registration that is given up amid its matching keeps no row, and nobody waits for it."""
    w = World()
    many_topics(w, 20)
    w.elect()
    monkeypatch.setattr(matches, "PORTION", 1)
    w.core.context.matches.run()
    gone = w.register("gone", "*1*.*")
    assert w.core.context.matches.is_busy()
    w.close(gone)
    stays = w.register("stays", '{"a-topic-with-a-longer-name-00000": 1}', group="h")
    w.advance(3_000)

    assert stays.error is ErrorCode.NONE
    assert not w.core.context.matches.rows
    assert GROUP not in w.core.groups


def test_subscriptions_of_many_topics_are_planned_as_others_are() -> None:
    """Who names many topics, who names few and who has a wildcard share what each of them wants."""
    w = World()
    many_topics(w, 3 * matches.MANY)
    w.elect()
    topics = sorted(w.core.topics.topics)
    wanted = [
        {topic: 1 + number % 3 for number, topic in enumerate(topics[:-7])},
        dict.fromkeys(topics[5:], 2),
        {topics[0]: 1, topics[-1]: 4, "none": 1},
    ]
    for number, named in enumerate(wanted):
        w.register(f"c{number}", json.dumps(named))
    w.register("c3", "*2*.*[02468]")
    w.advance(2_000)

    members = [
        (m.consumer_id, m.registration, m.subscription)
        for m in w.core.groups[GROUP].members.values()
    ]
    assert len(members) == 4
    assert w.core.rebalancer.plan(w.core.groups[GROUP]) == assign(w.core.topics.topics, members)
    assert len(w.fetchers()) == len(topics)


# ── Crowds ──────────────────────────────────────────────────────────────────────────────────


def test_a_crowd_that_vanishes_is_planned_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two ticks no more is planned than a portion, however many members are lost."""
    w = World()
    many_topics(w, 50)
    w.elect()
    crowd = [w.register(f"c{number:02}", "*1*.*") for number in range(30)]
    w.advance(1_000)
    planned: list[str] = []
    go_on = planner.GroupPlans._go_on

    def counted(self: planner.GroupPlans, group: Group, making: Making) -> None:
        planned.append(group.name)
        go_on(self, group, making)

    monkeypatch.setattr(planner, "PORTION", 500)
    monkeypatch.setattr(planner.GroupPlans, "_go_on", counted)
    w.give(Tick())
    for member in crowd[1:]:
        w.close(member)

    assert len(planned) <= 500 // 9
    w.advance(20_000)
    assert len(crowd[0].fetches) == 50


def test_no_group_keeps_the_portions_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a large plan is made in portions, other groups are rebalanced, whoever has them."""
    monkeypatch.setattr(planner, "PORTION", 300)
    w = World(Settings(request_handlers=2))
    many_topics(w, 200)
    w.elect()
    [topic, *_] = w.core.topics.topics
    for number in range(9):
        w.register(f"large-{number}", "*1*.*", group="large")
    small = [w.register("s", f'{{"{topic}": 1}}', group=f"small-{number}") for number in range(4)]
    ticks = 0
    while ticks < 30 and any(not member.count(Start) for member in small):
        w.give(Tick())
        ticks += 1

    assert ticks < 10
    assert w.core.groups["large"].phase is not Phase.IDLE
    w.advance(60_000)
    assert len(w.core.groups["large"].owners) == 200


def test_no_event_leads_to_more_than_a_shell_can_do_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start among many topics, and a crowd's Stops and Starts, are shared out over events."""
    monkeypatch.setattr(outbox, "FULL", 40)
    w = World()
    many_topics(w, 2 * outbox.FULL)
    w.elect()
    w.hold()
    crowd = [w.register(f"c{number:04}", "*1*.*") for number in range(outbox.FULL)]
    w.release_all()
    receive, most = w.core.receive, []

    def counted(event: CoordinatorEvent, now_ms: int) -> list[CoordinatorEffect]:
        effects = receive(event, now_ms)
        most.append(len(effects))
        return effects

    w.core.receive = counted  # type: ignore[method-assign]
    w.advance(900)
    newcomer = w.register("newcomer", "*1*.*")
    w.advance(0)

    assert sum(len(member.fetches) for member in [*crowd, newcomer]) == 2 * outbox.FULL
    assert min(member.count(Stop) for member in crowd) >= 1
    assert max(most) <= outbox.FULL + 10
    assert len({member.generation for member in [*crowd, newcomer]}) == 1


def test_what_waits_to_be_asked_is_forgotten_by_who_is_deposed() -> None:
    """A broker that leads no more asks for nothing that it wanted to know before."""
    w = World()
    many_topics(w, 2 * outbox.FULL)
    w.hold()
    w.elect()
    w.release(3)
    assert w.core.outbox.waiting
    before = len(w.asked)

    w.depose()
    w.advance(60_000)

    assert not w.core.outbox.waiting
    assert w.asked[before:] == []


def test_a_group_has_only_so_many_different_subscriptions() -> None:
    """One more is refused; the same once more is not, and room is made by who leaves."""
    w = elected(settings=Settings(max_subscriptions_per_group=2))
    first, _second = w.register("a", "*1*a|t"), w.register("b", "*1*b|t")

    assert w.register("c", "*1*c|t").error is ErrorCode.GROUP_FULL
    assert w.register("d", "*1*a|t").error is ErrorCode.NONE
    assert w.register("e", "*1*e|t", group="other").error is ErrorCode.NONE
    w.close(first)
    w.close(next(c for c in w.consumers.values() if c.consumer_id == "d"))
    w.advance(10_000)

    assert w.register("c", "*1*c|t").error is ErrorCode.NONE
    assert phase(w).value


def test_what_no_start_can_say_is_told_and_not_tried_for_ever() -> None:
    """A member is given as many partitions as its Start has room for; the others are counted."""
    w = elected(partitions=50, settings=Settings(max_start_bytes=300))
    a = w.register("a")
    w.advance(60_000)

    start = a.last(Start)
    assert isinstance(start, Start)
    assert sum(said_in((each.topic, each.partition)) for each in start.partitions) <= 300
    [told] = w.told(What.PARTITIONS_UNREAD)
    assert told["partitions"] == 50 - len(a.fetches)
    assert "let more members share them" in str(told["why"])
    assert len(w.told(What.OWNERS_WRITTEN)) == 1

    b, c = w.register("b"), w.register("c")
    w.advance(5_000)
    assert len(a.fetches) + len(b.fetches) + len(c.fetches) == 50
    assert len(w.told(What.PARTITIONS_UNREAD)) <= 2


@pytest.mark.parametrize("topic", ["t", "a" * 249])
def test_the_size_of_a_start_is_known_before_it_is_sent(topic: str) -> None:
    """What is reckoned is what is written, and a frame's head is no more than it is taken for."""
    partitions = tuple(Offset(topic, str(number), 2**60) for number in range(1_000))
    frame = Frame(Start(partitions), 2**31 - 1, 2**31 - 1, 2**31 - 1, "coordinator-32767")

    written = len(version1.encode(frame))

    said = sum(said_in((each.topic, each.partition)) for each in partitions)
    assert said <= written <= said + HEAD_BYTES
