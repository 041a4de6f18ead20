"""
Code of the user's own, held to its spec: what `verify FILE.py --code MODULE:Adapter` adds.

The adapter is named on the command line, or stands beside the spec: as `CODE = Adapter`, as
`CODE = {"LEASE": Adapter}` in a file of several specs, or as the only adapter class in the file.
Each way of holding code to a spec is a check of its own, for which the adapter has to be able:
what it cannot be asked is not asked, and not said.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from herdproof.cli.checks import conforms, differs, implementation, unknown
from herdproof.cli.loading import digest_since, imported_beside
from herdproof.conformance.adapter import Adapter, check_adapter, is_adapter
from herdspec.check.cache import Result
from herdspec.check.verdict import Finding, counted
from herdspec.check.verify import Check, Tell
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdproof.conformance.walk import Walked
    from herdspec.check.plans import Looked

RUNS, TURNS = 100, 50
"""How many walks are taken, and of how many turns each."""
SECONDS = 20.0
"""After how many seconds no further walk is begun."""


@dataclass(frozen=True)
class Code:
    """An adapter; `digest` is that of all that was imported with it."""

    adapter: type[Adapter]
    digest: str


# ── Which code ──────────────────────────────────────────────────────────────────────────────


def code_of(subjects: Sequence[Subject], named: str | None, before: set[str]) -> dict[str, Code]:
    """
    The code of each spec of a file that has some, by the spec's name; raises `UsageError`.

    `before` are the modules that had been imported before the file was.
    """
    module = sys.modules[subjects[0].module]
    if named is not None:
        of = the_one(subjects, f"--code {named}")
        wanted: Mapping[str, type[Adapter]] = {of.name: adapter_named(named, module)}
    else:
        wanted = beside(module, subjects)
    by_name = {subject.name: subject for subject in subjects}
    for name, adapter in wanted.items():
        check_adapter(by_name[name].spec, adapter)
    digest = digest_since(before) if wanted else ""
    return {name: Code(adapter, digest) for name, adapter in wanted.items()}


def the_one(subjects: Sequence[Subject], code: str) -> Subject:
    """The one spec of some that code can be held to: of which no failure is declared."""
    sound = [s for s in subjects if not s.declared] or [*subjects]
    if len(sound) > 1:
        names = ", ".join(s.name for s in sound)
        raise UsageError(
            f"{code} may be the code of several specs: {names}; name one (FILE.py:{sound[0].name}),"
            f' or write CODE = {{"{sound[0].name}": …}} in their file'
        )
    return sound[0]


def adapter_named(text: str, module: ModuleType) -> type[Adapter]:
    """The adapter `MODULE:NAME` or `FILE.py:NAME`, of a spec in this module."""
    place, colon, name = text.rpartition(":")
    if not (colon and place and name.isidentifier()):
        raise UsageError(
            f"--code {text}: write MODULE:NAME, the module (or FILE.py) of an adapter and its class"
        )
    found = imported_beside(place, module)
    value = getattr(found, name, None)
    if not is_adapter(value):
        known = ", ".join(adapters_in(found)) or "none"
        what = "is no adapter" if hasattr(found, name) else "is not there"
        raise UsageError(f"--code {text}: {name} {what}; the adapters of {place}: {known}")
    return cast(type[Adapter], value)


def beside(module: ModuleType, subjects: Sequence[Subject]) -> Mapping[str, type[Adapter]]:
    """The adapters that a file of specs names, by spec."""
    path = module.__file__
    code: Any = getattr(module, "CODE", None)
    if code is None:
        own = [v for v in adapters_in(module).values() if v.__module__ == module.__name__]
        if not own:
            return {}
        if len(own) > 1:
            names = ", ".join(a.__name__ for a in own)
            raise UsageError(
                f"{path} has several adapters ({names}): write CODE = {own[0].__name__}"
            )
        code = own[0]
    table = code if isinstance(code, Mapping) else None
    for value in table.values() if table is not None else [code]:
        if not is_adapter(value):
            raise UsageError(
                f"{path}: CODE names {value!r}; write CODE = Adapter, a class that derives from"
                f' herdproof.testing.Adapter, or CODE = {{"SPEC": Adapter}}'
            )
    if table is None:
        return {the_one(subjects, f"{path}: CODE").name: code}
    return {s.name: table[s.name] for s in subjects if s.name in table}


def adapters_in(module: ModuleType) -> dict[str, type[Adapter]]:
    """The classes of adapters that a module knows, by name."""
    return {name: value for name, value in vars(module).items() if is_adapter(value)}


# ── What is checked of it ───────────────────────────────────────────────────────────────────


def checks_of(looked: Looked, code: Code) -> list[Check]:
    """All ways in which this code can be held to this spec."""
    return [walks(looked, code)]


def rests_on(looked: Looked, code: Code, *options: Any) -> tuple[Any, ...]:
    """All that a verdict about code depends on, as far as is known here."""
    return looked.subject, looked.spec, looked.sizes, code.digest, implementation(), *options


def walks(looked: Looked, code: Code) -> Check:
    """Random walks: the code takes what the spec allows, and refuses what it does not."""
    row = "the code takes random walks as specified"
    sentence = "On random walks the code goes where the spec says, and refuses what it forbids."

    def run(tell: Tell) -> Result:
        from herdproof.conformance.walk import walk

        tell(f"{RUNS} walks of {TURNS} turns", None)
        walked = walk(
            looked.spec, code.adapter, looked.sizes, runs=RUNS, steps=TURNS, seconds=SECONDS
        )
        bounds = f"{size_of(looked)}, {counted(walked.steps, 'step')}"
        measured = (
            f"{walked.runs:,} of {counted(RUNS, 'walk')}, {counted(walked.steps, 'step')},"
            f" {sum(walked.report.refused.values()):,} refused"
        )
        return Result((judged(looked.subject, row, sentence, bounds, walked),), measured)

    return Check(
        f"walk {code.adapter.__name__} beside {looked.subject}: {size_of(looked)}",
        run, lambda: rests_on(looked, code, RUNS, TURNS, SECONDS),
    )  # fmt: skip


def judged(subject: str, row: str, sentence: str, bounds: str, walked: Walked) -> Finding:
    """What walks come to: a pass says what it did not show."""
    if walked.difference is not None:
        return differs(subject, row, sentence, bounds, str(walked.difference))
    if walked.unknown:
        return unknown(subject, row, sentence, bounds, walked.unknown)
    if not walked.steps:
        return unknown(subject, row, sentence, bounds, "no step was taken")
    if saw_nothing(walked.spec.rich, walked.unseen):
        return unknown(subject, row, sentence, bounds, "nothing was seen of the code")
    return conforms(subject, row, sentence, bounds, "; ".join(walked.gaps))


def saw_nothing(fields: Iterable[str], unseen: Iterable[str]) -> bool:
    """Whether of no field anything was ever seen."""
    return set(fields) <= {name.partition(".")[0] for name in unseen if "[" not in name}


def size_of(looked: Looked) -> str:
    """The sizes of a spec's sorts, in words."""
    return ", ".join(counted(n, sort.lower()) for sort, n in looked.sizes.items()) or "one size"
