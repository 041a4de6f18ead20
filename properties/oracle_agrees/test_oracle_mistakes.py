"""Mistakes in the oracle itself are noticed: by what the corpus declares."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
MISTAKES = {
    "a guard is ignored": ("steps.py", "raise Impossible(ast.unparse(condition))", "pass"),
    "ranges are not checked": ("values.py", "value > kind.limit)", "False)"),
    "below zero has a meaning": ("values.py", "value < 0 or", ""),
    "an empty channel has a meaning": (
        "expressions.py",
        'raise NoMeaning("an empty channel is read")',
        "return None",
    ),
    "the last comes out first": ("expressions.py", "owner.pop(given[0])", "owner.pop()"),
    "`any` is `all`": ("expressions.py", "return any(given[0])", "return all(given[0])"),
    "`or` looks at both sides": (
        "expressions.py",
        "return any(self.eval(v, scope) for v in node.values)",
        "return any([self.eval(v, scope) for v in node.values])",
    ),
    "assignment does not copy": (
        "steps.py",
        "value = copied(self.eval(node.value, scope))",
        "value = self.eval(node.value, scope)",
    ),
    "faults are free": ("steps.py", 'self.action.kind == "fault" or', "False or"),
    "what disturbs is free": ("steps.py", "or self.action.disturbs)", ")"),
    "axioms are not assumed": ("graph.py", 'if self._all("axiom", start):', "if True:"),
    "a joint action's steps are free": ("steps.py", "if name not in joint:", "if True:"),
    "parts have no steps": ("steps.py", "found.append(Choice(name, inner", "(Choice(name, inner"),
    "initial methods are left out": ("steps.py", "if not spec.initials:", "if True:"),
    "a step without meaning is not possible": (
        "graph.py",
        "graph.undefined.append((number, choice))",
        "pass",
    ),
    "commands recover": (
        "truth.py",
        'if e.choice.action.kind == "protocol"',
        'if e.choice.action.kind != "fault"',
    ),
    "faults recover": ("truth.py", 'if e.choice.action.kind == "protocol"', "if e"),
    "a property without meaning holds": (
        "graph.py",
        "return bool(value(interpreter, name, *given))",
        "return value(interpreter, name, *given) is not False",
    ),
    "strong fairness is weak": ("liveness.py", 'marked(graph, k, ("strong",))', "set()"),
    "nothing is fair": ("liveness.py", "for c in graph.possible[number]", "for c in ()"),
    "fairness is of an action": ("steps.py", "(*self.elements, *self.arguments))", "self.path)"),
    "a behaviour may not stop": (
        "liveness.py",
        "if set.intersection(*weak) - taken:",
        "if len(component) == 1 or set.intersection(*weak) - taken:",
    ),
    "what is fair is always taken": ("liveness.py", "if e.target in component", "if True"),
    "eventually begins anywhere": (
        "truth.py",
        "self.graph.depth[number] == 0\n",
        "True\n",
    ),
    "premises are ignored": ("truth.py", "said is None or bool(said[0])", "True"),
    "nothing is due without a meaning": ("truth.py", "said is None or bool", "said and bool"),
    "what is reached once stays": (
        "truth.py",
        'kind == "eventually_always":\n            stays',
        'kind == "none":\n            stays',
    ),
    "one end is every end": ("liveness.py", "not component & through", "not component <= through"),
    "fairness of any is of each": (
        "steps.py",
        "return (self.name, self.elements) if self.any_of_them else self.label",
        "return self.label",
    ),
    "fairness of any is of all parts": (
        "steps.py",
        "(self.name, self.elements) if",
        "self.name if",
    ),
    "what changes nothing excuses": (
        "graph.py",
        "graph.idle[number].add(choice.label)",
        "pass",
    ),
    "constraints are ignored": ("graph.py", "graph.outside.add(number)", "pass"),
    "what is beyond a constraint is known": (
        "graph.py",
        "return self.complete and not self.outside",
        "return self.complete",
    ),
    "constraints forbid": (
        "graph.py",
        "graph.possible[number].append(choice)",
        "number in graph.outside or graph.possible[number].append(choice)",
    ),
    "functions' joint steps are free": (
        "steps.py",
        "source.with_called([*actions, *spec.helpers.values()])",
        "[*actions, *spec.helpers.values()]",
    ),
    "by nothing is nothing": (
        "expressions.py",
        "except ZeroDivisionError as error:",
        "except ZeroDivisionError:\n            return 0\n        except KeyError as error:",
    ),
    "remainders are quotients": ("expressions.py", "a % b", "a // b"),
    "quotients go to zero": ("expressions.py", "lambda a, b: a // b", "lambda a, b: int(a / b)"),
    "what is beyond a queue is absent": (
        "expressions.py",
        "except (KeyError, IndexError, TypeError) as error:",
        "except IndexError:\n            return None\n        except KeyError as error:",
    ),
    "a step is one shorter": (
        "truth.py",
        "depth[k] + 1\n            for k, edges",
        "depth[k]\n            for k, edges",
    ),
    "the last state is missed": (
        "graph.py",
        "if name not in self.numbers:",
        "if name not in self.numbers and depth < 9:",
    ),
}
SCRIPT = """
from properties.oracle_agrees.declared import cases
from properties.oracle.graph import Limits
from properties.oracle.truth import judge
for case in cases():
    for at in case.declared:
        found = judge(case.source, case.name, at.sizes, Limits(faults=at.faults, horizon=1100))
        truths = {name: str(truth) for name, truth in found.truths.items()}
        assert truths == at.verdicts and found.never == at.dead, case.id
"""


@pytest.mark.long
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_oracle_is_noticed(mistake: str, tmp_path: Path) -> None:
    """With one rule of the interpreter changed, some spec of the corpus declares otherwise."""
    file, right, wrong = MISTAKES[mistake]
    for name in ("oracle", "corpus"):
        shutil.copytree(HERE / name, tmp_path / "properties" / name)
    (tmp_path / "properties" / "oracle_agrees").mkdir()
    shutil.copy(HERE / "oracle_agrees" / "declared.py", tmp_path / "properties" / "oracle_agrees")
    changed = tmp_path / "properties" / "oracle" / file
    text = changed.read_text(encoding="utf-8")
    assert right in text
    changed.write_text(text.replace(right, wrong), encoding="utf-8")

    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert "AssertionError" in run.stderr or "KeyError" in run.stderr, run.stderr
