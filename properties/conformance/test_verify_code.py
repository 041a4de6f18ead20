"""`herdproof verify FILE.py --code MODULE:Adapter`: code in the table beside its spec."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import Result

import properties.conformance.leases
from properties.cli.files import run_alone

HOLDS, FAILS, NOT_ASKED, UNKNOWN = 0, 1, 2, 3
LEASES = Path(properties.conformance.leases.__file__).read_text(encoding="utf-8")
SPEC, _, LOADABLE = LEASES.partition("class LeaseCore")
CORE = LOADABLE.partition("    def load(")[0]
"""The code and an adapter that cannot be put into states of the solver, which takes seconds."""
WALK = "the code takes random walks as specified"
EDGES = "the code takes every step as specified"
STORIES = "the code follows the spec's stories"
STATES = "the code steps as specified from states of the solver"

IMPORTS = """
from typing import Any, ClassVar, Mapping, Collection
from herdproof.testing import Adapter, CannotLoad, Refused
from lease import Client, Lease, Wish

"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a spec, its code, and adapters of it; commands are given there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lease.py").write_text(SPEC)
    (tmp_path / "core.py").write_text(f"{IMPORTS}class LeaseCore{CORE}")
    (tmp_path / "served.py").write_text(
        "import time\n\nfrom core import Leases\nfrom herdproof.testing import Adapter\n\n\n"
        'class Forgets(Leases):\n    flaws = ("forgets",)\n\n\n'
        "class Blind(Leases):\n    def observe(self):\n        return {}\n\n\n"
        "class Mute(Leases):\n    def expire(self, now):\n        pass\n\n\n"
        "class Idle(Leases):\n    def write(self, c):\n        pass\n\n\n"
        "class Swapped(Leases):\n    def write(self, c):\n        Leases.give_back(self, c)\n\n"
        "    def give_back(self, c):\n        Leases.write(self, c)\n\n\n"
        "class Constant(Leases):\n    def observe(self):\n        return {'term': 0}\n\n\n"
        "class Hangs(Leases):\n    timeout = 0.3\n\n"
        "    def expire(self):\n        time.sleep(1.0)\n\n\n"
        "class Leaves(Leases):\n    def write(self, c):\n        raise SystemExit(0)\n\n\n"
        "class Odd(Leases):\n    def observe(self):\n        return {'colour': 1}\n"
    )
    (tmp_path / "script.py").write_text("raise SystemExit(0)\n")
    return tmp_path / "lease.py"


def verified(spec: Path, *arguments: str) -> Result:
    """What verifying without a proof comes to."""
    return run_alone("verify", spec.name, "--no-prove", "--no-cache", *arguments)


def test_code_that_does_as_its_spec_says_is_in_the_table(spec: Path) -> None:
    """Right code gets its marks, and what they do not show stands beside them."""
    spec.with_name("core.py").write_text(f"{IMPORTS}class LeaseCore{LOADABLE}")
    done = verified(spec, "--code", "core:Leases", "--json", "out.json", "--junit", "out.xml")

    assert done.exit_code == HOLDS, done.output
    rows = {
        f["property"]: f
        for f in json.loads(Path("out.json").read_text())["protocols"][0]["findings"]
    }
    for row in (WALK, EDGES, STORIES, STATES):
        assert rows[row]["mark"] == "conforms"
        assert row == STORIES or "never seen: wish" in rows[row]["note"]
        assert cell(done, row).startswith("✔")
        assert row in Path("out.xml").read_text()
    assert "2 clients" in rows[WALK]["bounds"]


def cell(done: Result, row: str) -> str:
    """What the table says in a row."""
    line = next(line for line in done.stdout.splitlines() if line.startswith(row))
    return line.removeprefix(row).strip()


@pytest.mark.parametrize("way", ["module", "file", "beside", "named"])
def test_code_is_named_in_several_ways(spec: Path, way: str) -> None:
    """A module, a file, the only adapter in the spec's file, or `CODE` in it."""
    if way == "beside":
        spec.write_text(f"{SPEC}\n\nclass LeaseCore{CORE}")
    if way == "named":
        spec.write_text(f"{SPEC}\n\nfrom core import Leases\n\nCODE = Leases\n")
    arguments = {"module": ["--code", "core:Leases"], "file": ["--code", "core.py:Leases"]}

    done = verified(spec, *arguments.get(way, ()))

    assert done.exit_code == HOLDS, done.output
    assert cell(done, WALK).startswith("✔ 2 clients")


def test_code_that_differs_is_told_as_a_story(spec: Path) -> None:
    """A number that a restart loses fails the whole, with the way to it and a program."""
    done = verified(spec, "--code", "served:Forgets", "--junit", "out.xml", "--html", "out.html")

    assert done.exit_code == FAILS
    assert cell(done, WALK) == "✗ differs"
    assert "The server starts anew.  [restart()]" in done.stdout
    assert "with Held(Lease, Forgets, Client=2) as held:" in done.stdout
    assert "<failure" in Path("out.xml").read_text()
    assert "restart()" in Path("out.html").read_text()


def test_code_of_which_nothing_is_seen_is_unknown(spec: Path) -> None:
    """An adapter that observes nothing shows nothing: no way is a pass, though nothing differs."""
    spec.with_name("core.py").write_text(f"{IMPORTS}class LeaseCore{LOADABLE}")

    done = verified(spec, "--code", "served:Blind")

    assert done.exit_code == UNKNOWN
    for row in (WALK, EDGES, STORIES, STATES):
        assert cell(done, row).startswith("?")
    assert cell(done, WALK).startswith("? nothing was seen")


@pytest.mark.parametrize("kind", ["Idle", "Swapped", "Constant", "Hangs", "Leaves"])
def test_an_adapter_that_is_wrong_never_passes(spec: Path, kind: str) -> None:
    """An action that does nothing, two that are swapped, a look that never changes, a call that
    hangs, one that ends the process with status 0: each fails in every way that asks it something.
    """
    done = verified(spec, "--code", f"served:{kind}")

    assert done.exit_code == FAILS
    for row in (WALK, EDGES, STORIES):
        assert cell(done, row) == "✗ differs"


def test_what_code_raises_is_told_with_its_line(spec: Path) -> None:
    """And the stories that were not come to do not count as taken; each size is said once."""
    done = verified(spec, "--code", "served:Leaves")

    assert "raised SystemExit: 0 (served.py, line " in done.stdout
    told = {line.partition(" on ")[0]: line for line in done.stdout.splitlines()}
    taken, there_are = re.findall(r"(\d+) of (\d+) stories", told["take stories of LEASE along"])[0]
    assert int(taken) < int(there_are)
    assert told["take every edge of LEASE"].count("2 clients") == 1


def test_a_field_that_is_none_is_said(spec: Path) -> None:
    """What goes wrong in an adapter while it runs makes its check unknown, with the reason."""
    done = verified(spec, "--code", "served:Odd")

    assert done.exit_code == UNKNOWN
    assert "Odd observes 'colour', which is no field of Lease" in done.stdout


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("served", "write MODULE:NAME"),
        ("nowhere:Leases", "nowhere cannot be imported: ModuleNotFoundError"),
        ("script:Leases", "script cannot be imported: SystemExit: 0"),
        ("nowhere.py:Leases", "there is no file nowhere.py"),
        ("core:LeaseCore", "LeaseCore is no adapter; the adapters of core: Leases"),
        ("core:Lease_", "Lease_ is not there; the adapters of core: Leases"),
        ("served:Mute", "does not take what the action expire gives"),
    ],
)
def test_code_that_is_none_is_refused(spec: Path, code: str, sentence: str) -> None:
    """What cannot be held to the spec at all is said at once, in a sentence, and nothing is run."""
    done = verified(spec, "--code", code)

    assert done.exit_code == NOT_ASKED
    assert sentence in done.stderr
    assert "explore" not in done.stdout


def test_code_of_several_specs_says_of_which(spec: Path) -> None:
    """In a file of two sound specs, the code is of one: the command or a table says of which."""
    spec.write_text(f'{SPEC}\n\nOTHER = LEASE.replace("Other")\n')
    both = verified(spec, "--code", "core:Leases")
    one = run_alone("verify", "lease.py:LEASE", "--no-prove", "--no-cache", "--code", "core:Leases")
    spec.write_text(
        f'{SPEC}\n\nOTHER = LEASE.replace("Other")\n\nfrom core import Leases\n\n'
        'CODE = {"OTHER": Leases}\n'
    )
    table = verified(spec)

    assert both.exit_code == NOT_ASKED
    assert "may be the code of several specs: LEASE, OTHER" in both.stderr
    assert one.exit_code == table.exit_code == HOLDS, table.output
    assert "walk Leases beside OTHER" in table.stdout
    assert "walk Leases beside LEASE" not in table.stdout


def test_code_is_run_again_when_it_changes(spec: Path) -> None:
    """A kept verdict is of just this code: of the adapter, and of what it imports."""
    arguments = ["verify", spec.name, "--no-prove", "--code", "served:Leases", "--cache", "kept"]
    first = run_alone(*arguments)
    again = run_alone(*arguments)
    core = spec.with_name("core.py")
    core.write_text(core.read_text().replace("self.term += 1", "self.term += 2"))
    changed = run_alone(*arguments)

    assert (first.exit_code, again.exit_code, changed.exit_code) == (HOLDS, HOLDS, FAILS)
    line = next(line for line in again.stdout.splitlines() if line.startswith("walk Leases"))
    assert line.endswith("(kept)")


@pytest.mark.parametrize(
    ("imports", "where"),
    [("import tabnanny", "at the top"), ("import lately", "in a function")],
)
def test_what_is_imported_by_any_name_and_in_any_place_counts(
    spec: Path, monkeypatch: pytest.MonkeyPatch, imports: str, where: str
) -> None:
    """A neighbour that is called as a module of Python's, and what a function imports."""
    monkeypatch.syspath_prepend(str(spec.parent))
    name = imports.removeprefix("import ")
    helper, core = spec.with_name(f"{name}.py"), spec.with_name("core.py")
    helper.write_text("ONE = 1\n")
    text = core.read_text().replace("self.term += 1", f"self.term += {name}.ONE")
    statement = next(line for line in text.splitlines() if line.endswith(f"{name}.ONE"))
    within = statement.replace(statement.strip(), f"{imports}; {statement.strip()}")
    is_late = where == "in a function"
    core.write_text(text.replace(statement, within) if is_late else f"{imports}\n{text}")
    arguments = ["verify", spec.name, "--no-prove", "--code", "served:Leases", "--cache", "kept"]
    first = run_alone(*arguments)
    helper.write_text("ONE = 2\n")
    changed = run_alone(*arguments)

    assert (first.exit_code, changed.exit_code) == (HOLDS, FAILS), first.output


def test_verdicts_are_of_the_adapter_that_was_named(spec: Path) -> None:
    """Of two adapters of one name in one package, each has its own."""
    package = spec.with_name("served_twice")
    package.mkdir()
    (package / "__init__.py").write_text("")
    good_one = "from core import Leases\n\n\nclass A(Leases):\n    flaws = ()\n"
    (package / "good.py").write_text(good_one)
    (package / "bad.py").write_text(good_one.replace("()\n", '("forgets",)\n'))
    arguments = ["verify", spec.name, "--no-prove", "--cache", "kept", "--code"]
    good = run_alone(*arguments, "served_twice.good:A")
    bad = run_alone(*arguments, "served_twice.bad:A")

    assert (good.exit_code, bad.exit_code) == (HOLDS, FAILS), good.output


def test_code_is_for_specs_of_ones_own(spec: Path) -> None:
    """A protocol that is known has its own implementation."""
    done = run_alone("verify", "election", "--code", "core:Leases")

    assert done.exit_code == NOT_ASKED
    assert "--code are for specs of your own" in done.stderr
