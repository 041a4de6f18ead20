"""
A docstring begins with a noun or a verb: it is understood without what stands beside it.

"Whether", "What" and "How" begin half a sentence, of which the name beside it is the other half.
How many still begin so is counted by folder, against a ceiling: the number can only fall.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
HALVES = ("What ", "How ", "Whether ")
CEILINGS = {
    "impl/herdproof/cli/run/demo": 24,
    "impl/herdproof/consuming": 86,
    "impl/herdproof/pipeline/audit": 59,
    "impl/herdproof/pipeline/judging": 29,
    "impl/herdproof/pipeline/report": 28,
    "impl/herdproof/pipeline/spark": 4,
    "impl/herdproof/protocols/central_coordinator": 19,
    "impl/herdproof/protocols/central_coordinator/client": 27,
    "impl/herdproof/protocols/central_coordinator/coordinator": 65,
    "impl/herdproof/protocols/central_coordinator/held": 15,
    "impl/herdproof/protocols/central_coordinator/judged": 68,
    "impl/herdproof/protocols/central_coordinator/server": 8,
    "impl/herdproof/protocols/central_coordinator/simulated": 35,
    "impl/herdproof/protocols/central_coordinator/traces": 18,
    "impl/herdproof/protocols/central_coordinator/wire": 19,
    "impl/herdproof/shells": 11,
    "spec/herdspec/protocols/central_coordinator": 2,
    "spec/herdspec/protocols/contract": 1,
    "spec/herdspec/protocols/group_protocol": 6,
    "spec/herdspec/protocols/lease": 1,
    "spec/herdspec/protocols/self_rebalancing": 3,
}
"""The number of docstrings in each folder that begin with half a sentence still."""


def halves(tree: ast.Module) -> Iterator[int]:
    """The lines of the docstrings, of attributes too, that begin with half a sentence."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))) if text.strip().startswith(
                    HALVES
                ):
                    yield statement.lineno


@cache
def counted(root: Path) -> Counter[str]:
    """The number of them in each folder of the two packages below `root`."""
    found = Counter[str]()
    for place in ("spec", "impl"):
        for path in sorted((root / place).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
            found[str(path.parent.relative_to(root))] += sum(1 for _ in halves(tree))
    return +found


def test_no_folder_has_more_docstrings_of_half_a_sentence() -> None:
    """Whoever writes a new one words it as a sentence, or as a name for the thing."""
    found = counted(ROOT)

    more = {folder: n for folder, n in found.items() if n > CEILINGS.get(folder, 0)}

    assert not more, f"begin these with a noun or a verb: {more}"


def test_the_ceilings_fall_with_the_numbers() -> None:
    """A folder that has fewer than its ceiling says so, and never has more again."""
    found = counted(ROOT)

    fewer = {folder: found[folder] for folder, n in CEILINGS.items() if found[folder] < n}

    assert not fewer, f"lower these ceilings to {fewer}; all are now {dict(found)}"


def test_halves_of_sentences_are_found(tmp_path: Path) -> None:
    """Of modules, classes, functions and attributes alike; not of what begins otherwise."""
    (tmp_path / "spec").mkdir()
    text = (
        '"""What a is."""\n\n\ndef f() -> None:\n    """\n    Whether.\n\n    How it is.\n    """\n'
    )
    (tmp_path / "spec" / "a.py").write_text(
        text + 'b = 1\n"""How many."""\nc = 2\n"""Whatever."""\n'
    )
    (tmp_path / "spec" / "b.py").write_text('"""Whether it\nis."""\n')

    assert counted(tmp_path) == {"spec": 3}
