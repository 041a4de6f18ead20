"""`diff --together`: old and new members in one system, and what only both together break."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdspec import UsageError, from_source
from herdspec.check.exploration.explore import explore
from herdspec.check.proof.prove import SolverAnswer, prove
from herdspec.check.refinement.mixed_versions import WHO, together
from herdspec.check.running.run import Machine
from herdspec.engine.ground import Ground
from herdspec.language.surface import Spec
from properties.check.refinement.rollout import LAST_GIVEN, NEXT_TO_GIVE
from properties.engine.readings import compare_steps, explorer
from properties.language.net import NET, ONLY_ONE
from properties.locks import EXPIRES_UNSEEN, GHOST, LOCK, VARIANTS, spec

HOLDS, FAILS = 0, 1


def test_each_version_alone_is_safe_and_both_together_are_not() -> None:
    """A field whose meaning changes breaks only the mix, and the story says who is old."""
    made = together(LAST_GIVEN, NEXT_TO_GIVE, "Client")
    sizes = {"Client": 2}

    alone = [explore(s, sizes, faults=2, bound=5).violations for s in (LAST_GIVEN, NEXT_TO_GIVE)]
    found = explore(made.spec, sizes, faults=2, bound=5).violations

    assert alone == [{}, {}]
    assert set(found) == {"no_token_is_given_twice"}
    story = found["no_token_is_given_twice"]
    told = "\n".join(made.lines(story))
    assert "{} counts the epoch up for its token.".format("client1 takes the lease, and") in told
    assert "(client1 is old)  [grant(client1)]" in told
    assert "(client2 is new)  [grant(client2)]" in told


MIXED = {
    "guard": (VARIANTS["unguarded"], LOCK),
    "effect": (LOCK, EXPIRES_UNSEEN),
    "action and field": (LOCK, GHOST),
    "action and field gone": (GHOST, LOCK),
}


@pytest.mark.parametrize("change", MIXED)
def test_an_old_member_does_what_the_old_spec_says_and_a_new_one_the_new(change: str) -> None:
    """In every state, each step of the mix is that of the version that its member has."""
    old, new = (spec(text) for text in MIXED[change])
    made = together(old, new, "Client")
    machine = Machine(Ground(made.spec, {"Client": 2}, 3, 2))
    alone = [Machine(Ground(s, {"Client": 2}, 3, 2)) for s in (old, new)]

    todo = [machine.initial()]
    seen = {machine.numbers(todo[0])}
    for state in todo:
        for action, arguments in machine.choices:
            after = machine.take(state, action.name, arguments)
            if action.name != "upgrade":
                by = alone[state.__dict__[WHO][arguments[0]]]
                assert fields(by, after) == by_one(by, state, action.name, arguments[0].index)
            if after is not None and (numbers := machine.numbers(after)) not in seen:
                seen.add(numbers)
                todo.append(after)
    assert len(seen) > 30


def by_one(machine: Machine, state: Spec, action: str, client: int) -> dict[str, str] | None:
    """A step by one version alone, from a state of the mix."""
    if all(a.name != action for a in machine.spec.actions):
        return None
    own = machine.initial()
    for name, value in own.__dict__.items():
        given = state.__dict__[name]
        mine = {e.index: e for e in machine.elements("Client")}
        lease = type(next(iter(value.values()))) if isinstance(value, dict) else None

        def here(v: object, lease: object = lease, mine: dict[int, object] = mine) -> object:
            index = getattr(v, "index", None)
            if isinstance(index, int):
                return mine[index]
            return lease[v.name] if hasattr(v, "name") else v  # type: ignore[index, unused-ignore]

        own.__dict__[name] = (
            {here(k): here(v) for k, v in given.items()} if isinstance(given, dict) else here(given)
        )
    return fields(machine, machine.take(own, action, (machine.elements("Client")[client],)))


def fields(machine: Machine, state: Spec | None) -> dict[str, str] | None:
    """What a state has of the fields of a version, as text."""
    if state is None:
        return None
    return {f.name: str(state.__dict__[f.name]) for f in machine.spec.fields}


def test_the_mix_is_read_the_same_by_every_reading() -> None:
    """The mixed spec's plain Python and its columns take the same steps, in its own states."""
    made = together(spec(LOCK), spec(GHOST), "Client")
    ex = explorer(made.spec)
    machine = ex.machine

    state, rows = machine.initial(), []
    for _ in range(12):
        rows.append(machine.numbers(state))
        *_, last = machine.steps(state)
        state = last.state

    compare_steps(ex, rows)
    assert any(a != b for a, b in pairwise(rows))


def test_specs_with_everything_the_language_has_are_mixed() -> None:
    """The mix of specs with channels, records, sets, parts and several starts is one more spec."""
    made = together(NET, ONLY_ONE, "Client")
    ex = explorer(made.spec)

    found = explore(made.spec, {"Client": 2}, faults=0)

    assert set(found.violations) == {"somebody_waits"}
    compare_steps(ex, [ex.machine.numbers(state) for state in ex.machine.starts()])
    assert "upgrade_the_rest" in [a.name for a in made.spec.actions]
    assert [a.name for a in made.spec.starts] == ["begin"]


KNOWN = '''
@lemma
def the_server_knows(s: Lock) -> bool:
    """Whoever holds a lease is the server's holder."""
    return all(s.lease[c] != Lease.HELD or s.holder == c for c in Client)
'''


def test_the_mix_is_proved_for_any_number_of_members() -> None:
    """What is inductive in the mix is proved of it; what an old member breaks is not."""
    new = spec(VARIANTS["never stale again"] + KNOWN)

    good = prove(together(spec(LOCK + KNOWN), new, "Client").spec)
    bad = prove(together(spec(VARIANTS["unguarded"] + KNOWN), new, "Client").spec)

    assert good.proved
    assert {o.action for o in bad.obligations if o.outcome is SolverAnswer.FAILED} == {"grant"}


SERVER = LOCK.replace("expire(self, c: Client)", "expire(self)").replace(
    'The lease of {c} expires."""\n        require(self.holder == c)\n        self.holder = None\n'
    "        self.lease[c] = Lease.STALE",
    'The lease expires."""\n        require(self.holder is not None)\n        self.holder = None',
)


def test_what_nobody_in_particular_does_is_upgraded_as_a_whole() -> None:
    """An action without such a parameter, in which the versions differ, is the rest's."""
    changed = SERVER.replace("require(self.holder is not None)", "require(False)")

    made = together(spec(SERVER), spec(changed), "Client")

    assert "upgrade_the_rest" in [a.name for a in made.spec.actions]
    machine = Machine(Ground(made.spec, {"Client": 1}, 3, 2))
    held = machine.take(machine.initial(), "grant", (machine.elements("Client")[0],))
    assert held is not None
    assert machine.take(held, "expire", ()) is not None
    upgraded = machine.take(held, "upgrade_the_rest", ())
    assert upgraded is not None
    assert machine.take(upgraded, "expire", ()) is None


def test_an_action_with_other_parameters_is_two_actions() -> None:
    """Where the parameters differ, old members keep an action of their own."""
    text = LOCK.replace("def release(self, c: Client)", "def release(self, c: Client, f: bool)")

    made = together(spec(LOCK), spec(text), "Client")

    assert {"release", "release_as_old"} <= {a.name for a in made.spec.actions}


def test_promises_of_both_are_kept_apart_where_they_differ() -> None:
    """A promise of one name that is another formula is there twice, each with its owner."""
    weaker = LOCK.replace("if a != b", "if a != b and s.holder is None")

    made = together(spec(LOCK), spec(weaker), "Client")

    names = [p.name for p in made.spec.properties]
    assert names == ["one_holder", "somebody_holds_it", "one_holder_as_the_old_one_promises"]
    assert [len(made.promised[n]) for n in names] == [1, 2, 1]


@pytest.mark.parametrize(
    ("text", "sort", "said"),
    [
        (LOCK, "Broker", "Lock has no sort 'Broker' to upgrade; its sorts: Client"),
        (
            LOCK.replace('    STALE = "stale"\n', "").replace("Lease.STALE", "Lease.HELD"),
            "Client",
            "the field lease is dict[Client, Lease] of NONE, HELD, STALE in Lock, "
            "dict[Client, Lease] of NONE, HELD in Lock",
        ),
        (
            LOCK.replace("lease: dict", "upgraded: bool = False\n    lease: dict"),
            "Client",
            "Lock has upgraded itself: rename it, to mix it",
        ),
    ],
)
def test_versions_that_cannot_share_a_state_are_refused(text: str, sort: str, said: str) -> None:
    """A field of two types, or a name that is taken, is refused with what to do."""
    with pytest.raises(UsageError) as error:
        together(spec(LOCK), spec(text), sort)
    assert said in str(error.value)


LIMITED = '''
from enum import Enum
from herdspec import *

LIMIT = 1

class Client(Sort):
    """A client."""

class Mood(Enum):
    CALM = "calm"
    LOUD = "loud"

CALM = Mood.CALM

def below(s: Room, c: Client) -> bool:
    """Whether a client may say more."""
    return s.said[c] < LIMIT

class Room(Spec):
    """People talk."""
    said: dict[Client, Nat] = each(0)
    mood: Mood = CALM

    @action
    def talk(self, c: Client) -> None:
        """{c} talks."""
        require(below(self, c) and self.mood == CALM)
        self.said[c] += 1
'''


def test_constants_and_helpers_of_the_module_are_each_versions_own() -> None:
    """Old members see the old file's constants and functions, new ones the new file's."""
    old = from_source(LIMITED, "Room")
    new = from_source(LIMITED.replace("LIMIT = 1", "LIMIT = 2"), "Room")

    machine = Machine(Ground(together(old, new, "Client").spec, {"Client": 2}, 3, 0))

    a, b = machine.elements("Client")
    state: Spec | None = machine.initial()
    for action, client in (("upgrade", b), ("talk", a), ("talk", b), ("talk", b)):
        assert state is not None
        state = machine.take(state, action, (client,))
    assert state is not None
    assert machine.take(state, "talk", (a,)) is None
    assert machine.take(state, "talk", (b,)) is None


def test_an_enum_may_grow_but_not_shrink() -> None:
    """A member that only new members know is no obstacle; one that only old ones know is."""
    grown = LIMITED.replace('    LOUD = "loud"', '    LOUD = "loud"\n    SAD = "sad"')

    assert together(from_source(LIMITED, "Room"), from_source(grown, "Room"), "Client").spec.actions
    with pytest.raises(UsageError, match="mood is Mood of CALM, LOUD, SAD in Room, Mood of CALM"):
        together(from_source(grown, "Room"), from_source(LIMITED, "Room"), "Client")


SEATED = '''
from herdspec import *

class Client(Sort):
    """A client."""

class Seat(Sort):
    """A seat."""

class Room(Spec):
    """People sit."""
    free: dict[Seat, bool] = each(True)
    of: dict[Seat, Client | None] = each(None)

    @initial
    def some_are_broken(self, broken: set[Seat]) -> None:
        """Some seats are broken."""
        for s in Seat:
            self.free[s] = s not in broken

    @action
    def sit(self, c: Client, wanted: set[Seat], kept: dict[Seat, bool]) -> None:
        """{c} takes {wanted}, and keeps {kept}."""
        require(all(s not in wanted or self.free[s] for s in Seat))
        for s in Seat:
            self.of[s] = c if s in wanted or (kept[s] and self.of[s] == c) else self.of[s]
'''


def test_sets_and_maps_that_an_action_chooses_are_each_versions_own() -> None:
    """What is chosen whole is handed on to whose version takes the step, in every reading."""
    greedy = SEATED.replace("self.free[s] for s", "(self.free[s] or s in wanted) for s")
    made = together(from_source(SEATED, "Room"), from_source(greedy, "Room"), "Client")
    machine = Machine(Ground(made.spec, {"Client": 1, "Seat": 2}, 1, 0))
    (client,), seats = machine.elements("Client"), machine.elements("Seat")
    step = "sit", (client, frozenset(seats), dict.fromkeys(seats, False))

    broken = list(machine.starts())[1]
    upgraded = machine.take(broken, "upgrade", (client,))

    assert machine.take(broken, *step) is None
    assert upgraded is not None
    assert machine.take(upgraded, *step) is not None
    ex = explorer(made.spec)
    compare_steps(ex, [ex.machine.numbers(state) for state in ex.machine.starts()])


VERSIONED = '''
from herdspec import *

class Client(Sort):
    """A client."""

class Room(Spec):
    """People talk."""
    said: dict[Client, Nat] = each(0)

    @action
    def talk(self, c: Client) -> None:
        """{c} talks."""
        self.said[c] += 1

room_talk = Room.talk

class Louder(Room):
    """People talk twice."""

    @action
    def talk(self, c: Client) -> None:
        """{c} talks twice."""
        room_talk(self, c)
        self.said[c] += 1

louder_talk = Louder.talk

class Loudest(Louder):
    """People talk three times."""

    @action
    def talk(self, c: Client) -> None:
        """{c} talks three times."""
        louder_talk(self, c)
        self.said[c] += 1
'''


def test_an_action_may_call_the_one_that_it_takes_the_place_of_and_that_another() -> None:
    """A change of a change: the functions have one name, and are three."""
    louder, loudest = (from_source(VERSIONED, name) for name in ("Louder", "Loudest"))
    machine = Machine(Ground(together(louder, loudest, "Client").spec, {"Client": 2}, 9, 0))
    a, b = machine.elements("Client")

    state: Spec | None = machine.initial()
    for action, client in (("upgrade", b), ("talk", a), ("talk", b)):
        assert state is not None
        state = machine.take(state, action, (client,))

    assert state is not None
    assert state.__dict__["said"] == {a: 2, b: 3}


# ── The command ──────────────────────────────────────────────────────────────────────────────


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run a command; its exit code and all it printed."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    return done.exit_code, done.output


def test_versions_that_break_only_together_end_with_1() -> None:
    """`--together` tells the story that neither version has alone."""
    file = Path(__file__).parent / "rollout.py"
    both = (f"{file}:LAST_GIVEN", f"{file}:NEXT_TO_GIVE")

    code, told = run("diff", *both, "--together", "--may-end", "--bound", "5")

    assert code == FAILS
    assert "only together" in told
    assert "client2 takes the lease and the epoch as its token" in told
    assert run("diff", both[0], both[0], "--together", "--may-end", "--bound", "5")[0] == HOLDS
