"""
A docstring begins with a noun or a verb: it is understood without what stands beside it.

"Whether", "What" and "How" begin half a sentence, of which the name beside it is the other half;
"So many", "The same", "They" and "Those" say less than what they point at, and an "And" or an "Or"
goes on with somebody else's sentence. Of a property or an action it is a whole one, which verdicts
and counterexamples print.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
HALVES = ("What ", "How ", "Whether ")
POINTERS = (
    "So many ", "So much ", "So few ", "So little ", "So long ", "So often ", "So far ", "For so ",
    "The same ", "The same,", "They ", "Those ", "Such ", "And ", "Or ", "Nor ",
)  # fmt: skip
PRINTED = {"action", "always", "lemma", "sometimes", "step"}
"""The decorators of what has a sentence of its own."""


def is_printed(node: ast.AST) -> bool:
    """True of a property or an action of a spec."""
    decorators = getattr(node, "decorator_list", [])
    names = (d.func if isinstance(d, ast.Call) else d for d in decorators)
    return any(isinstance(name, ast.Name) and name.id in PRINTED for name in names)


def halves(root: Path) -> Iterator[str]:
    """Docstrings of the two packages, of attributes too, that begin with half of something."""
    for place in ("spec", "impl"):
        for path in sorted((root / place).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
                body = getattr(node, "body", None)
                for statement in body if isinstance(body, list) and not is_printed(node) else ():
                    match statement:
                        case ast.Expr(value=ast.Constant(value=str(text))):
                            if text.strip().startswith(HALVES + POINTERS):
                                yield f"{path.relative_to(root)}:{statement.lineno}"


def test_docstrings_are_no_halves_of_sentences() -> None:
    """Whoever writes a new one words it as a sentence, or as a name for the thing."""
    assert list(halves(ROOT)) == []


def test_halves_of_sentences_are_found(tmp_path: Path) -> None:
    """Of modules, classes, functions and attributes alike; not of what begins otherwise."""
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "a.py").write_text(
        '"""What a is."""\n\n\ndef f() -> None:\n    """\n    Whether.\n\n    How it is.\n    """\n'
        '@lemma\ndef g() -> None:\n    """What is sent was said."""\n'
        'b = 1\n"""How many."""\nc = 2\n"""Whatever."""\nd = 3\n"""So many of them."""\n'
    )
    (tmp_path / "spec" / "b.py").write_text('"""Whether it\nis."""\n')
    (tmp_path / "impl").mkdir()
    (tmp_path / "impl" / "c.py").write_text('"""The same, of c."""\nclass C:\n    """Thoseby."""\n')

    found = ["spec/a.py:1", "spec/a.py:14", "spec/a.py:18", "spec/b.py:1", "impl/c.py:1"]
    assert list(halves(tmp_path)) == found
