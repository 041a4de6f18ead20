"""Stories: where they begin, why a step has no meaning, and what things are called."""

from __future__ import annotations

import json
from enum import Enum, auto
from pathlib import Path

import pytest

from herdproof.cli.specs import find
from herdspec import from_source
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import liveness
from herdspec.check.proof.prove import prove
from herdspec.check.running.run import said
from herdspec.check.simulation.search import search
from herdspec.check.simulation.simulate import simulate
from herdspec.check.verdict import sized
from properties.cli.files import LAMPS, TALLY, run
from properties.published.agreement.nonblocking_commit import WRONG_COMMIT

VOTES = '''
"""Votes."""
from enum import Enum
from herdspec import *

class Node(Sort):
    """A node."""

class Vote(Enum):
    YES = "yes"
    NO = "no"

class State(Enum):
    NONE = "none"
    WAITS = "waits"

class Voting(Spec):
    """Nodes have votes, and count them."""
    votes: dict[Node, Vote] = each(Vote.NO)
    counted: dict[Node, bool] = each(False)
    state: State = State.NONE

    @initial
    def start(self, votes: dict[Node, Vote]) -> None:
        """All have their votes."""
        self.votes = votes

    @action
    def count(self, n: Node) -> None:
        """The vote of {n} is counted."""
        require(not self.counted[n])
        self.counted[n] = True
        self.state = State.WAITS

@always
def no_vote_counts(s: Voting) -> bool:
    """No vote that counts is a yes."""
    return not any(s.counted[n] and s.votes[n] == Vote.YES for n in Node)
'''
BEGINS = "Initially: votes[node1]=yes  [start({node1: Vote.YES})]"


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    """A file with the votes' spec."""
    file = tmp_path / "votes.py"
    file.write_text(VOTES)
    return file


# ── Where a story begins ────────────────────────────────────────────────────────────────────


def test_every_search_says_which_initial_state_it_began_in() -> None:
    """Exploration, bounded search and random walks tell a story with its choice of a start."""
    spec = from_source(VOTES, "Voting")
    one = {"Node": 1}
    stories = [
        explore(spec, one, faults=0).violations["no_vote_counts"],
        search(spec, one, faults=0, depth=3).violations["no_vote_counts"],
        simulate(spec, one, faults=0, steps=1000).violations["no_vote_counts"],
    ]

    assert [story.lines[0] for story in stories] == [BEGINS] * 3


def test_a_story_for_ever_says_where_it_began() -> None:
    """The line of the initial state stands before the steps, and the loop where it belongs."""
    never = (
        VOTES
        + """
@eventually
def all_are_counted(s: Voting) -> bool:
    \"\"\"All votes are counted.\"\"\"
    return all(s.counted[n] for n in Node)
"""
    )
    found = liveness(from_source(never, "Voting"), {"Node": 1}, faults=0)

    lines = found.violations["all_are_counted"].lines
    assert lines[0].startswith("Initially: votes[node1]=")
    assert lines[1].startswith("     nothing more happens")


def test_commands_show_the_initial_state(votes: Path, tmp_path: Path) -> None:
    """It is in the text and the JSON of `explore`, in the page of `verify`, and in `replay`."""
    page, data, folder = tmp_path / "page.html", tmp_path / "data.json", tmp_path / "stories"

    explored = run("explore", votes, "--size", "Node=1", "--json", data, "--save-stories", folder)
    verified = run("verify", votes, "--no-cache", "--size", "Node=1", "--html", page)
    replayed = run("replay", *folder.iterdir())

    assert f"\n  {BEGINS}\n    1. The vote of node1 is counted." in explored.stdout
    stories = [f["story"] for f in json.loads(data.read_text())["findings"] if f["story"]]
    assert stories[0][0] == BEGINS
    assert BEGINS in verified.stdout
    assert f'class="begins" x="220" y="51">{BEGINS}</text>' in page.read_text()
    assert f"  {BEGINS}\n" in replayed.stdout


def test_the_votes_of_a_published_protocol_are_shown() -> None:
    """The counterexample of the wrong commit protocol says who has voted what beforehand."""
    story = explore(WRONG_COMMIT, {"Participant": 2}, faults=0).violations["ac1"]

    assert story.lines[0] == (
        "Initially: votes_yes[participant1]=True, votes_yes[participant2]=True  "
        "[choose_votes({participant1: True, participant2: True})]"
    )


def test_a_declared_initial_state_is_not_repeated(tmp_path: Path) -> None:
    """Where nothing is chosen, the initial state stands in the spec: no line shows it."""
    story = explore(from_source(LAMPS, "Lamps"), {"Lamp": 1}, faults=1).violations["never_all"]

    assert story.lines[0] == "  1. lamp1 is switched on.  [switch_on(lamp1)]"


# ── Steps without a meaning ─────────────────────────────────────────────────────────────────

UNDEFINED = '''
from typing import Annotated
from herdspec import *

class Client(Sort):
    """A client."""

class Odd(Spec):
    """Its step has no meaning."""
    n: Annotated[Nat, UpTo(3)] = 2
    k: Nat = 0
    holder: Client | None = None
    lease: dict[Client, Annotated[Nat, UpTo(2)]] = each(0)
    queue: Annotated[list[Client], Capacity(1)] = empty()
    seen: set[Client] = empty()

    @action
    def act(self) -> None:
        """It acts."""
        BODY

    def helper(self) -> None:
        """It is called."""
        self.k = 1
        self.n = self.n + 2

@always
def all_is_well(s: Odd) -> bool:
    """It is odd, but well."""
    return s.n <= 3
'''


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("self.n += 2", "`n` would be 4, beyond UpTo(3), by `self.n += 2`"),
        ("self.k -= 1", "`k` would be -1, below zero, by `self.k -= 1`"),
        ("self.lease[self.holder] = 1", "written at an absent key, by `self.lease[self.holder]"),
        ("self.k = self.lease[self.holder]", "`self.holder` is absent, in `self.lease[self."),
        ("self.holder = self.queue.pop(0)", "`self.queue` is empty, in `self.queue.pop(0)`"),
        ("self.holder = self.queue[0]", "`self.queue` is empty, in `self.queue[0]`"),
        ("self.seen.add(self.holder)", "`seen` would hold an absent value, by `self.seen.add("),
        (
            "for c in Client: self.lease[c] = self.n + 1",
            "`lease[client1]` would be 3, beyond UpTo(2), by `self.lease[c] = self.n + 1`",
        ),
    ],
)
def test_a_step_without_a_meaning_says_why(body: str, why: str) -> None:
    """The last line names the value, the expression and the line; not "nothing changes"."""
    text = UNDEFINED.replace("BODY", body)
    for found in (
        explore(from_source(text, "Odd"), {"Client": 1}, faults=0, bound=3),
        search(from_source(text, "Odd"), {"Client": 1}, faults=0, depth=2, bound=3),
        simulate(from_source(text, "Odd"), {"Client": 1}, faults=0, bound=3, steps=100),
    ):
        last = found.violations["every_value_is_defined"].lines[-1]
        line = text.splitlines().index(f"        {body}") + 1
        assert why in last
        assert last.endswith(f":{line})")


ANY_ORDER = '''
from herdspec import *

class Client(Sort):
    """A client."""

class Ring(Spec):
    """Who follows whom."""
    closed: bool = False
    next: dict[Client, Client | None] = each(None)
    on: dict[Client, bool] = each(False)

    @action
    def follow(self, c: Client, d: Client) -> None:
        """{d} follows {c}."""
        self.next[c] = d

    @action
    def close(self, c: Client) -> None:
        """{c} closes the ring."""
        require(self.next[c] is not None)
        self.closed = all(self.on[self.next[x]] for x in Client)

@always
def open(s: Ring) -> bool:
    """It stays open."""
    return not s.closed
'''


def test_a_step_has_no_meaning_whichever_element_python_looks_at_first(tmp_path: Path) -> None:
    """Python stops at the first turn that decides; of elements, which have no order, none is."""
    spec = from_source(ANY_ORDER, "Ring")
    for found in (
        explore(spec, {"Client": 2}, faults=0),
        search(spec, {"Client": 2}, faults=0, depth=2, bound=3),
        simulate(spec, {"Client": 2}, faults=0, steps=1_000),
    ):
        last = found.violations["every_value_is_defined"].lines[-1]
        assert "`self.next[x]` is absent, in `self.on[self.next[x]]`" in last

    file, folder = tmp_path / "ring.py", tmp_path / "stories"
    file.write_text(ANY_ORDER)
    run("explore", file, "--save-stories", folder)

    assert "still fails: step 2 has no meaning" in run("replay", *folder.iterdir()).stdout


def test_the_line_is_that_of_a_helper() -> None:
    """Where a helper leaves the range, its line is named, not that of its call."""
    text = UNDEFINED.replace("BODY", "self.helper()")

    found = explore(from_source(text, "Odd"), {"Client": 1}, faults=0, bound=3)

    last = found.violations["every_value_is_defined"].lines[-1]
    assert "`n` would be 4, beyond UpTo(3), by `self.n = self.n + 2`" in last
    assert last.endswith(f":{text.splitlines().index('        self.n = self.n + 2') + 1})")


def test_reports_and_replays_say_why(tmp_path: Path) -> None:
    """`verify`'s page, `explore` and `replay` say it in the same words."""
    file, page, folder = tmp_path / "odd.py", tmp_path / "page.html", tmp_path / "stories"
    file.write_text(UNDEFINED.replace("BODY", "self.n += 2"))
    why = "`n` would be 4, beyond UpTo(3), by `self.n += 2` (odd.py:20)"

    explored = run("explore", file, "--may-end", "--save-stories", folder)
    run("verify", file, "--no-cache", "--no-prove", "--html", page)
    replayed = run("replay", *folder.iterdir())

    assert f"         {why}\n" in explored.stdout
    assert why in page.read_text()
    assert f"still fails: step 1 has no meaning: {why}" in replayed.stdout


# ── What things are called ──────────────────────────────────────────────────────────────────


def test_the_prover_calls_members_as_stories_do(votes: Path) -> None:
    """A counterexample to induction says `none → waits`, as a story does; never `NONE`."""
    obligations = prove(find(str(votes)).spec).obligations
    shown = [line for o in obligations if o.counterexample for line in o.counterexample.lines]

    assert "    state: none → waits" in shown
    assert "state: none → waits" in run("explore", votes).stdout
    assert not any("WAITS" in line or line.endswith("NO") for line in shown)


class Phase(Enum):
    """Members without words of their own."""

    IDLE = auto()
    BUSY = auto()


def test_a_member_without_a_word_is_called_by_its_name() -> None:
    """A member whose value is a number is said by its name: `busy`, not `2`."""
    assert said(Phase.BUSY) == "busy"


# ── Faults that cannot happen ───────────────────────────────────────────────────────────────


def test_faults_are_mentioned_only_of_specs_that_have_some() -> None:
    """The budget of faults is part of a size only where an action disturbs."""
    lamps, tally = from_source(LAMPS, "Lamps"), from_source(TALLY, "Tally")
    votes = from_source(VOTES, "Voting")

    assert sized(lamps, {"Lamp": 2}, 1) == "2 lamps, 1 fault"
    assert sized(votes, {"Node": 2}, 2) == "2 nodes"
    assert sized(tally, {}, 2) == "the only size"


@pytest.mark.parametrize("command", ["explore", "search", "simulate", "verify"])
def test_commands_do_not_speak_of_faults_that_cannot_happen(votes: Path, command: str) -> None:
    """No command mentions faults of a spec that has none."""
    more = {"verify": ["--no-cache"], "search": ["--depth", "2"], "simulate": ["--steps", "100"]}

    done = run(command, votes, *more.get(command, []))

    assert "2 nodes" in done.stdout
    assert "fault" not in done.stdout
