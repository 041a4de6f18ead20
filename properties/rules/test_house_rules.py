"""The house rules, as tests: what a reader may rely on in every file of this repository.

Each rule is a function from a tree of files to its offenders, one line each. Each has two tests:
the repository has no offender, and a planted tree has exactly the one that was planted.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

LONGEST_FUNCTION_LINES = 70
LONGEST_FILE_LINES = 600
MOST_MODULES = 15
"""The number of modules that a folder holds at the most, beside its `__init__.py`."""
FULLER = {
    "benchmarks": 18,
    "impl/herdproof/broker": 17,
    "impl/herdproof/pipeline/audit": 17,
}
"""Folders that hold more, and how many: none is to be added, and none to grow."""
ROOT = Path(__file__).parents[2]
CODE = ("spec", "impl", "properties", "integration", "benchmarks", "docs", "conftest.py")
SEE_BOTH_SIDES = (
    "impl/herdproof/conformance",
    "impl/herdproof/cli",
    "impl/herdproof/pipeline",
    "impl/herdproof/protocols/group_replay.py",
    "impl/herdproof/protocols/implementation.py",
    "impl/herdproof/protocols/imports.py",
    "impl/herdproof/report",
)
ROOMS = Path("impl/herdproof/protocols")
NAMES_OF_ROOMS = frozenset(
    folder.name
    for side in (ROOT / ROOMS, ROOT / "spec/herdspec/protocols")
    for folder in side.iterdir()
    if folder.is_dir()
)
SOME_ROOM = "from herdspec.protocols.central_coordinator.spec import Member"
SHARED_ROOMS = ("contract", "election", "lease")
"""The rooms that other protocols are built on: these they may name."""
JUDGES = ("entry.py", "campaign.py", "held", "judged", "traces")
"""What holds a protocol's code to its spec, in the protocol's room: it sees both sides, too."""
TRIALS = ("simulated", "simulated.py", "gated.py", "real")
"""The worlds in which code is tried, in a protocol's room."""
PRODUCTION = ("impl/herdproof/zookeeper", "impl/herdproof/consumer.py", str(ROOMS))
DOORS = ("impl/herdproof/cli/run", "impl/herdproof/consumer.py", "impl/herdproof/testing.py")
"""What users start: commands of one protocol, the consumer, which picks one, a broker for tests."""
KNOW_KAZOO = (
    "impl/herdproof/zookeeper/client.py",
    "impl/herdproof/zookeeper/kazoo_frames.py",
    "properties/zookeeper/test_transactions.py",
)

ROOTS = ("HerdError", "HerdspecError")
BRANCHES = ("CallerError", "PeerError", "WorldError", "SpecError", "UsageError")
"""The trees of errors: what the caller, the other side, or the world did wrong."""
OURS = ("FrameError", "RecordsLost", "SessionFailed")
"""What may be of either side of a connection; and mistakes of our own."""
PACKAGES = ("spec/herdspec", "impl/herdproof")
SHARED = frozenset({"What"})
"""
Names that classes of a package share; none is to be added.

`What` is each room's vocabulary of reports, which nobody takes for another room's.
"""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Module:
    """One Python file: its path below the root, its text and its syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All of its tree, walked once for all rules."""
        return tuple(ast.walk(self.tree))


def modules(root: Path, *places: str) -> Iterator[Module]:
    """Every Python file in these places (folders or files) below `root`, in order of path."""
    for place in places:
        top = root / place
        for path in [top] if top.is_file() else sorted(top.rglob("*.py")):
            yield read(root, path)


@cache
def read(root: Path, path: Path) -> Module:
    """A file below `root`, read and parsed once for all rules."""
    text = path.read_text(encoding="utf-8")
    return Module(path=path.relative_to(root), text=text, tree=ast.parse(text, str(path)))


def functions(module: Module) -> Iterator[Function]:
    """Every function of a module, methods and inner functions included."""
    return (node for node in module.nodes if isinstance(node, Function))


def imported(module: Module) -> Iterator[tuple[int, str]]:
    """The line and the top-level package of every absolute import in a module."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


def long_functions(root: Path) -> list[str]:
    """Functions that do not fit on a screen."""
    return [
        f"{module.path}:{node.lineno} {node.name} has {length} lines"
        for module in modules(root, *CODE)
        for node in functions(module)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) >= LONGEST_FUNCTION_LINES
    ]


def long_files(root: Path) -> list[str]:
    """Files too long to be read in one go."""
    return [
        f"{module.path} has {length} lines"
        for module in modules(root, *CODE)
        if (length := len(module.text.splitlines())) > LONGEST_FILE_LINES
    ]


def full_folders(root: Path) -> list[str]:
    """Folders too full for a reader to find the way; they are grouped by what is in them."""
    return [
        f"{folder} holds {count} modules"
        for folder, count in modules_in_folders(root).items()
        if count > FULLER.get(folder, MOST_MODULES)
    ]


def modules_in_folders(root: Path) -> Counter[str]:
    """The number of modules right in each folder, without those that only make it a package."""
    paths = (module.path for module in modules(root, *CODE))
    return Counter(str(path.parent) for path in paths if path.name != "__init__.py")


def modules_without_docstring(root: Path) -> list[str]:
    """Modules that do not open with what they are for."""
    return [
        f"{module.path} opens without a docstring"
        for module in modules(root, *CODE)
        if not ast.get_docstring(module.tree)
    ]


def sentenceless_tests(root: Path) -> list[str]:
    """Test functions that do not say in a sentence what they show."""
    return [
        f"{module.path}:{node.lineno} {node.name} has no docstring"
        for module in modules(root, "properties", "integration")
        for node in functions(module)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]


def spec_imports_of_the_implementation(root: Path) -> list[str]:
    """Imports that would let the implementation shape what it is judged by."""
    return forbidden_imports(root, "spec", {"herdproof", "impl", "properties", "integration"})


def implementation_imports_of_the_spec(root: Path) -> list[str]:
    """
    Imports that would let what is judged agree with the spec by copying it.

    That goes for what runs in production and for the simulator. Only what holds one side against
    the other, or shows it, sees both.
    """
    return forbidden_imports(
        root, "impl", {"herdspec", "spec"},
        except_in=(*SEE_BOTH_SIDES, *parts_of_rooms(root, JUDGES)),
    )  # fmt: skip


def parts_of_rooms(root: Path, names: tuple[str, ...]) -> list[str]:
    """The folders and files of these names in the protocols' rooms."""
    return [
        str(part.relative_to(root))
        for room in (root / ROOMS).glob("*/")
        for part in room.iterdir()
        if part.name in names
    ]


def names_of_rooms(root: Path) -> list[str]:
    """
    Imports that would let anything outside of a protocol's rooms know it by name.

    The contract is every protocol's, and protocols are built on the election and on leases.
    """
    return [
        f"{module.path}:{line} names {name}"
        for module in modules(root, "spec", "impl")
        if not any(module.path.is_relative_to(door) for door in DOORS)
        for line, name, room in rooms_imported(module)
        if room not in allowed_rooms(module.path)
    ]


def allowed_rooms(path: Path) -> tuple[str, ...]:
    """The rooms that a module may name: its own and the shared ones, or the contract alone."""
    if "protocols" not in path.parts:
        return ("contract",)
    return (path.parts[path.parts.index("protocols") + 1], *SHARED_ROOMS)


def rooms_imported(module: Module) -> Iterator[tuple[int, str, str]]:
    """The line, the full name and the room of each import from a protocol's room, on any side."""
    for node in module.nodes:
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(source), names=aliases, level=0):
                is_above = source in ("herdproof.protocols", "herdspec.protocols")
                names = [f"{source}.{alias.name}" for alias in aliases] if is_above else [source]
            case _:
                continue
        for name in names:
            match name.split("."):
                case ["herdproof" | "herdspec", "protocols", room, *_] if room in NAMES_OF_ROOMS:
                    yield node.lineno, name, room


def imports_of_kazoo(root: Path) -> list[str]:
    """Imports that would let kazoo, which is untyped, out of its two typed modules."""
    return [
        offender
        for place in CODE
        for offender in forbidden_imports(root, place, {"kazoo"}, except_in=KNOW_KAZOO)
    ]


def errors_without_a_branch(root: Path) -> list[str]:
    """
    Exceptions that leave a package and do not say by whose doing they are.

    Each derives from a branch of its package's tree, but for a mistake of our own.
    """
    return [
        f"{module.path}:{line} {what}"
        for module in modules(root, "spec", "impl")
        for line, what in straight_from_a_root(module)
    ]


def straight_from_a_root(module: Module) -> Iterator[tuple[int, str]]:
    """Where a class derives from the root of a tree of errors, or the root itself is raised."""
    for node in module.nodes:
        match node:
            case ast.ClassDef(name=name, bases=[ast.Name(id=root)]) if root in ROOTS:
                if name not in BRANCHES and name not in OURS:
                    yield node.lineno, f"{name} derives from {root}"
            case ast.Raise(exc=ast.Call(func=ast.Name(id=root))) if root in ROOTS:
                yield node.lineno, f"raises {root}"


def names_of_two_classes(root: Path) -> list[str]:
    """Names that two classes of a package have: whoever meets one has to ask which."""
    return [
        f"{name} is a class in {' and in '.join(places)}"
        for package in PACKAGES
        for name, places in classes(root, package).items()
        if len(places) > 1 and name not in SHARED
    ]


def classes(root: Path, package: str) -> dict[str, list[str]]:
    """The modules of a package in which there is a class of each name."""
    found: dict[str, list[str]] = {}
    for module in modules(root, package):
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(module.path))
    return found


def flaws_in_production(root: Path) -> list[str]:
    """
    Lines of a core, or of what runs it, that know of mistakes that a core can be made to have.

    A known mistake is a subclass, put in the core's place by whoever wants to see it caught.
    """
    apart = parts_of_rooms(root, (*JUDGES, *TRIALS))
    return [
        f"{module.path}:{number} mentions flaws"
        for module in modules(root, *PRODUCTION)
        if not any(module.path.is_relative_to(part) for part in apart)
        for number, line in enumerate(module.text.splitlines(), start=1)
        if "flaw" in line.lower()
    ]


def forbidden_imports(
    root: Path, place: str, forbidden: set[str], except_in: tuple[str, ...] = ()
) -> list[str]:
    """Imports of a forbidden package by a module in `place`, but not in these places below it."""
    return [
        f"{module.path}:{line} imports {package}"
        for module in modules(root, place)
        if not any(module.path.is_relative_to(exception) for exception in except_in)
        for line, package in imported(module)
        if package in forbidden
    ]


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A file that breaks one rule: where it stands, what is in it, and what the rule says."""

    path: str
    text: str
    offence: str
    copies: int = 0
    """The number of files of the same text beside it."""

    def plant(self, root: Path) -> None:
        """Write it, and its copies, below `root`."""
        file = root / self.path
        file.parent.mkdir(parents=True)
        for number in ("", *range(self.copies)):
            file.with_stem(f"{file.stem}{number}").write_text(self.text, encoding="utf-8")


RULES: dict[Callable[[Path], list[str]], Planted] = {
    long_functions: Planted(
        path="impl/a.py",
        text='"""A."""\n\n\ndef f() -> None:\n' + "    print()\n" * 69,
        offence="impl/a.py:4 f has 70 lines",
    ),
    long_files: Planted(
        path="spec/herdspec/a.py",
        text='"""A."""\n' + "# line\n" * 600,
        offence="spec/herdspec/a.py has 601 lines",
    ),
    full_folders: Planted(
        path="properties/a/b.py",
        text='"""B."""\n',
        copies=15,
        offence="properties/a holds 16 modules",
    ),
    modules_without_docstring: Planted(
        path="integration/a.py",
        text="x = 1\n",
        offence="integration/a.py opens without a docstring",
    ),
    sentenceless_tests: Planted(
        path="properties/test_a.py",
        text='"""A."""\n\n\nclass TestA:\n    def test_b(self) -> None:\n        assert True\n',
        offence="properties/test_a.py:5 test_b has no docstring",
    ),
    spec_imports_of_the_implementation: Planted(
        path="spec/herdspec/a.py",
        text='"""A."""\n\ndef f() -> None:\n    from herdproof.zookeeper import x\n',
        offence="spec/herdspec/a.py:4 imports herdproof",
    ),
    implementation_imports_of_the_spec: Planted(
        path="impl/herdproof/simulator/a.py",
        text='"""A."""\nimport json, herdspec.check\n',
        offence="impl/herdproof/simulator/a.py:2 imports herdspec",
    ),
    flaws_in_production: Planted(
        path="impl/herdproof/zookeeper/a.py",
        text='"""A."""\n\n\ndef f(flaws: str) -> str:\n    return f\n',
        offence="impl/herdproof/zookeeper/a.py:4 mentions flaws",
    ),
    names_of_rooms: Planted(
        path="impl/herdproof/pipeline/a.py",
        text='"""A."""\nfrom herdproof.protocols.election.elector import x\n',
        offence="impl/herdproof/pipeline/a.py:2 names herdproof.protocols.election.elector",
    ),
    errors_without_a_branch: Planted(
        path="impl/herdproof/a.py",
        text='"""A."""\n\n\nclass Lost(HerdError):\n    """A."""\n',
        offence="impl/herdproof/a.py:4 Lost derives from HerdError",
    ),
    names_of_two_classes: Planted(
        path="impl/herdproof/a.py",
        text='"""A."""\n\n\nclass A:\n    class A:\n        """A."""\n',
        offence="A is a class in impl/herdproof/a.py and in impl/herdproof/a.py",
    ),
    imports_of_kazoo: Planted(
        path="impl/herdproof/zookeeper/a.py",
        text='"""A."""\nfrom kazoo.client import KazooClient\n',
        offence="impl/herdproof/zookeeper/a.py:2 imports kazoo",
    ),
}


def test_the_rules_look_at_real_files() -> None:
    """The rules look at real files: each place that exists here holds at least one module."""
    for place in ("spec", "impl", "properties", "integration", "impl/herdproof/simulator"):
        assert any(modules(ROOT, place)), f"no Python file in {place}"


def test_the_names_that_classes_share_become_fewer() -> None:
    """A name that no two classes have any longer is struck off the list."""
    shared = {
        name
        for package in PACKAGES
        for name, places in classes(ROOT, package).items()
        if len(places) > 1
    }

    assert shared >= SHARED, f"strike {sorted(SHARED - shared)} off SHARED"


def test_the_folders_that_hold_more_become_fewer() -> None:
    """A folder that has been grouped is struck off the list, or its number made smaller."""
    counts = modules_in_folders(ROOT)

    assert {folder: counts[folder] for folder in FULLER} == FULLER
    assert min(FULLER.values()) > MOST_MODULES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_house_rule_is_kept(rule: Callable[[Path], list[str]]) -> None:
    """Every house rule is kept in every file of the repository."""
    assert rule(ROOT) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_house_rule_can_be_broken(rule: Callable[[Path], list[str]], tmp_path: Path) -> None:
    """Every house rule tells the file that breaks it, and no other rule minds that file."""
    planted = RULES[rule]
    planted.plant(tmp_path)

    told = {other.__name__: other(tmp_path) for other in RULES}

    assert told == {other.__name__: [] for other in RULES} | {rule.__name__: [planted.offence]}


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        (
            "impl/herdproof/a.py",
            "import json, herdproof.protocols.election.shell",
            "election.shell",
        ),
        ("impl/herdproof/a.py", "from herdproof.protocols import election", "election"),
        ("spec/herdspec/protocols/contract/a.py", SOME_ROOM, "central_coordinator.spec"),
        ("impl/herdproof/protocols/implementation.py", SOME_ROOM, "central_coordinator.spec"),
        ("spec/herdspec/protocols/central_coordinator/a.py", SOME_ROOM, None),
        ("impl/herdproof/cli/run/a.py", SOME_ROOM, None),
        ("spec/herdspec/protocols/a/b.py", "from herdspec.protocols.lease import spec", None),
        ("impl/herdproof/a.py", "from herdproof.protocols.implementation import find", None),
    ],
)
def test_rooms_are_named_in_any_form(
    path: str, text: str, named: str | None, tmp_path: Path
) -> None:
    """A room is named by `import`, from the folder above it and from another room, too."""
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")

    told = names_of_rooms(tmp_path)

    assert [line.partition(".protocols.")[2] for line in told] == [named] * (named is not None)
