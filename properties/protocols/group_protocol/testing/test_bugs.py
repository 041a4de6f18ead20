"""
Kafka's historical bugs: each is shown by a story that goes well without it, and badly with it.

A story is what clients send; it says whether they were served as they ought to be.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from herdproof.protocols.group_protocol.bugs.registry import BUGS, ELSEWHERE, NoSuchBug
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.testing import LocalBroker
from properties.protocols.group_protocol.testing.wired import WiredClient

UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, FENCED = 25, 27, 82
PAGE = Path(__file__).parents[4] / "docs" / "testing_consumers.md"
SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1, offsets_retention_minutes=60
)


class Players:
    """A broker, with or without a bug, and clients that hang up at the end."""

    def __init__(self, bug: str | None, stack: ExitStack) -> None:
        self.broker = stack.enter_context(LocalBroker({"t": 2, "u": 1}, settings=SETTINGS, bug=bug))
        self._stack = stack

    def client(self, name: str, instance: str | None = None) -> WiredClient:
        """One more client."""
        made = WiredClient(self.broker.bootstrap, name, instance)
        self._stack.callback(made.close)
        return made

    def send(self, client: WiredClient, version: int = 9, **more: int) -> Callable[[], Any]:
        """Send a JoinGroup, and wait until it is taken; what waits for the answer, and takes it."""
        asked = len(self.broker.asked("JoinGroup"))
        head = client.send(client.joining(**more), version)
        while len(self.broker.asked("JoinGroup")) == asked:
            pass

        def receive() -> Any:
            told = client.receive(head)
            client.take(told)
            return told

        return receive

    def both(self, first: WiredClient, second: WiredClient, **more: int) -> None:
        """Two that are members, the first of them since before, share the topic's partitions."""
        waiting = [self.send(each, **more) for each in (second, first)]
        for receive in waiting:
            assert receive().error_code == 0
        assigned = {first.member_id: [("t", 0)], second.member_id: [("t", 1)]}
        for each in (first, second) if first.is_leader else (second, first):
            assert each.sync(assigned if each.is_leader else None).error_code == 0

    def pass_time(self, seconds: int, *alive: WiredClient) -> None:
        """Time passes, in which these are heard of."""
        for _ in range(seconds // 20):
            self.broker.advance(20)
            for each in alive:
                each.heartbeat()


# ── Stories ─────────────────────────────────────────────────────────────────────────────────


def a_rebalance_is_told_to_members(players: Players) -> bool:
    """Who is to join anew is told that, not that its generation is over."""
    member = players.client("a")
    member.own(0)
    players.send(players.client("b"), 3)
    return member.heartbeat() == REBALANCE_IN_PROGRESS


def who_was_left_behind_is_forgotten(players: Players) -> bool:
    """One rebalance without a member is enough: none follows when its session would have ended."""
    member, silent, third = (players.client(name) for name in "abc")
    member.own(0)
    receive = players.send(silent, 3, session_ms=120_000, rebalance_ms=20_000)
    players.send(member, rebalance_ms=20_000)()
    receive()
    member.sync({member.member_id: [("t", 0)]})
    joining = players.send(third, 3, rebalance_ms=20_000)
    again = players.send(member, rebalance_ms=20_000)
    players.broker.advance(20)
    again()
    joining()
    member.sync({member.member_id: [("t", 0)], third.member_id: [("t", 1)]})
    third.sync()
    players.pass_time(120, member, third)
    return member.heartbeat() == 0


def who_gave_up_is_no_member_for_ever(players: Players) -> bool:
    """New members whose JoinGroup waited for five minutes, and who hung up, are none."""
    member = players.client("a")
    receive = players.send(member, 3, rebalance_ms=1_200_000)
    receive()
    member.sync({member.member_id: [("t", 0)]})
    for _ in range(3):
        players.send(players.client("b"), 3, rebalance_ms=1_200_000)
    players.pass_time(320, member)
    return list(players.broker.group("g").members) == ["a"]


def offsets_outlive_a_failover(players: Players) -> bool:
    """Offsets of a group without members are kept for their time, whoever coordinates."""
    member = players.client("a")
    member.own(0)
    member.commit(5)
    players.broker.expire("a")
    players.broker.failover()
    players.broker.advance(1200)
    return players.broker.group("g").offsets == {("t", 0): 5}


def a_static_member_may_be_late(players: Players) -> bool:
    """A static member that is away while others rebalance keeps its place."""
    member, static = players.client("a"), players.client("s", "s1")
    member.own(0)
    players.both(member, static, session_ms=120_000)
    players.send(players.client("b"), 3)
    receive = players.send(member)
    players.broker.advance(60)
    receive()
    return "s" in players.broker.group("g").members


def a_static_member_is_there_once(players: Players) -> bool:
    """Of two processes with one instance id, that join in one rebalance, one is a member."""
    member, static, twin = (players.client(*each) for each in (("a",), ("s", "s1"), ("s", "s1")))
    member.own(0)
    players.both(member, static)
    for joining, version in ((players.client("x"), 3), (static, 9), (twin, 9)):
        players.send(joining, version)
    leader = players.send(member)()
    instances = [each.group_instance_id for each in leader.members]
    return instances.count("s1") == 1


def v0_members_wait_for_each_other(players: Players) -> bool:
    """A second member that joins by JoinGroup 0 does not throw out the first."""
    first, second = players.client("a"), players.client("b")
    first.join(version=0)
    if first.sync({first.member_id: [("t", 0)]}).error_code:
        return False  # it is thrown out before it has asked for its assignment
    players.send(second, 0)
    return first.heartbeat() == REBALANCE_IN_PROGRESS


def the_older_process_is_fenced(players: Players) -> bool:
    """Of a static member that came back twice, the process before is told that it is fenced."""
    member, second, third = (players.client("s", "s1") for _ in range(3))
    member.own(0)
    second.join()
    third.join()
    return second.heartbeat() == FENCED


def a_member_that_is_heard_of_lives(players: Players) -> bool:
    """Who joined by JoinGroup 3 and sends heartbeats is a member after five minutes, too."""
    member = players.client("a")
    member.own(0, version=3)
    players.pass_time(320, member)
    return member.heartbeat() == 0


def who_comes_back_in_the_middle_is_assigned(players: Players) -> bool:
    """A static member that comes back while assignments are awaited gets its part."""
    leader, static = players.client("a"), players.client("s", "s1")
    leader.own(0)
    receive = players.send(static)
    players.send(leader)()
    receive()
    old_id, again = static.member_id, players.client("s", "s1")
    joined = players.send(again)
    if leader.sync({leader.member_id: [], old_id: [("t", 0)]}).error_code:
        players.send(leader)()
        joined()
        leader.sync({leader.member_id: [], again.member_id: [("t", 0)]})
    else:
        joined()
    return bool(again.sync().assignment)


def who_came_back_is_known_after_a_failover(players: Players) -> bool:
    """The new id of a static member is what the next coordinator reads."""
    static, again = players.client("s", "s1"), players.client("s", "s1")
    static.own(0)
    again.join()
    players.broker.failover()
    return again.heartbeat() == 0


def nobody_waits_for_a_leader_that_does_not_assign(players: Players) -> bool:
    """A leader that sends heartbeats and never assigns is a member no longer."""
    leader = players.client("a")
    leader.join()
    players.pass_time(120, leader)
    return leader.heartbeat() == UNKNOWN_MEMBER_ID


def offsets_outlive_a_rebalance(players: Players) -> bool:
    """While a group rebalances, nothing is forgotten that a new member may be about to read."""
    member, other = players.client("a"), players.client("b")
    member.commit(3, topic_name="u")
    member.own(0)
    players.pass_time(3540, member)
    other.topics = ["t", "u"]
    players.send(other, 3, rebalance_ms=1_200_000)
    players.pass_time(800, member)
    return players.broker.group("g").offsets == {("u", 0): 3}


def a_shorter_rebalance_timeout_counts(players: Players) -> bool:
    """A static member that came back says how long it is to be waited for."""
    static, again, other = (players.client(*each) for each in (("s", "s1"), ("s", "s1"), ("b",)))
    static.own(0)
    players.send(again, rebalance_ms=10_000)()
    players.send(other, 3, rebalance_ms=10_000)
    players.broker.advance(10)
    return players.broker.group("g").generation == 2


def a_consumer_by_hand_may_have_an_instance_id(players: Players) -> bool:
    """Who assigns partitions by hand commits, whatever its instance id."""
    by_hand = players.client("s", "s1")
    by_hand.commit(1)
    return by_hand.commit(2) == 0


STORIES: dict[str, Callable[[Players], bool]] = {
    "KAFKA-2557": a_rebalance_is_told_to_members,
    "KAFKA-7196": who_was_left_behind_is_forgotten,
    "KAFKA-7610": who_gave_up_is_no_member_for_ever,
    "KAFKA-8069": offsets_outlive_a_failover,
    "KAFKA-8220": a_static_member_may_be_late,
    "KAFKA-8500": a_static_member_is_there_once,
    "KAFKA-8653": v0_members_wait_for_each_other,
    "KAFKA-8715": the_older_process_is_fenced,
    "KAFKA-9232": a_member_that_is_heard_of_lives,
    "KAFKA-9801": who_comes_back_in_the_middle_is_assigned,
    "KAFKA-10284": who_came_back_is_known_after_a_failover,
    "KAFKA-12890": nobody_waits_for_a_leader_that_does_not_assign,
    "KAFKA-13636": offsets_outlive_a_rebalance,
    "KAFKA-14009": a_shorter_rebalance_timeout_counts,
    "KAFKA-14201": a_consumer_by_hand_may_have_an_instance_id,
}


def test_each_bug_has_its_story() -> None:
    """There is a story for each bug that can be had, and none of those that cannot be."""
    assert set(STORIES) == set(BUGS)
    assert not set(STORIES) & set(ELSEWHERE)
    assert len(BUGS) >= 12


def test_the_page_tells_of_each_bug() -> None:
    """docs/testing_consumers.md has the sentence of each bug, and why others cannot be had."""
    page = PAGE.read_text(encoding="utf-8")
    rows = {name: str(core.__doc__).strip().rstrip(".") for name, core in BUGS.items()}

    assert [n for n, told in {**rows, **ELSEWHERE}.items() if f"| {n} | {told} |" not in page] == []


def test_the_page_says_which_clients_live_with_each_bug() -> None:
    """A row for each, with what was seen of four libraries, in words that the program has."""
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (KAFKA-\d+|none) \| (?:static|dynamic) \| (.*) \|$", page, re.MULTILINE)
    cell = re.compile(r"(no occasion|settles|does not settle|ends with)\b.*?(; \d+)?")

    assert [name for name, _ in rows] == ["none", "none", *BUGS]
    for name, told in rows:
        cells = told.split(" | ")
        assert len(cells) == 4, name
        for each in cells:
            shown = cell.fullmatch(each)
            assert shown, (name, each)
            counted = shown[2] is not None
            assert counted is (name != "none" and not each.startswith("no occasion")), (name, each)


@pytest.mark.parametrize("bug", STORIES)
def test_a_story_goes_well_without_its_bug_and_badly_with_it(bug: str) -> None:
    """The coordinator that is held to the spec serves its clients; one with the bug does not."""
    with ExitStack() as stack:
        sound, flawed = Players(None, stack), Players(bug, stack)
        assert STORIES[bug](sound)
        assert not STORIES[bug](flawed)
        assert sound.broker.occasions == 0
        assert flawed.broker.occasions > 0


@pytest.mark.parametrize("bug", STORIES)
def test_without_an_occasion_a_bug_makes_no_difference(bug: str) -> None:
    """One member that joins, consumes, commits and lives on is served by each of them."""
    with ExitStack() as stack:
        players = Players(bug, stack)
        member = players.client("a")
        member.own(0)
        players.pass_time(320, member)
        assert [member.commit(1), member.heartbeat()] == [0, 0]
        assert players.broker.occasions == 0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("KAFKA-1", "there is no bug 'KAFKA-1'"), ("KAFKA-5247", "cannot be had here: it is of com")],
)
def test_a_bug_that_is_not_here_is_said(name: str, sentence: str) -> None:
    """An unknown number is one sentence, and one that cannot be shown says why."""
    with pytest.raises(NoSuchBug, match=sentence):
        LocalBroker(bug=name)


def test_bugs_are_imported_when_one_is_asked_for() -> None:
    """Neither the command's modules nor a broker without a bug load any."""
    code = (
        "import sys; from herdproof.testing import LocalBroker; import herdproof.cli.run.broker\n"
        "with LocalBroker(): print([m for m in sys.modules if '.bugs' in m])\n"
        "with LocalBroker(bug='KAFKA-2557'): print(len([m for m in sys.modules if '.bugs' in m]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["[]", "7"]
