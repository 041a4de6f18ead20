"""
`herdproof verify`: the main job. Specs explored and proved, drafts shown to fail, one table.

What is checked of a spec is planned in `herdspec.check.plans`; what is checked of the
implementation (`Implementation.checks`) is added here, since the spec knows nothing of it. A file
with specs of one's own gets a plan, too. Verdicts are kept in `.herdproof/cache`
(`herdspec.check.cache`); other programs read them as JSON, JUnit or SARIF, GitHub as annotations,
and people as a page of HTML.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.cli.options import WithinOption
from herdproof.report.render import (
    JsonOption,
    Output,
    check_writable,
    remove_old,
    write_file,
)
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdspec.check.cache import Cache
    from herdspec.check.plans import CheckConfig, Scale
    from herdspec.check.side_by_side import Tell
    from herdspec.check.verify import Check, Plan, PlanReport

What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PROTOCOL|FILE.py[:SPEC]]...",
        help="Protocols, or specs of your own; all protocols, if none is named.",
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Explore 2 elements × 2 faults, not 3 × 3.")]
Stories = Annotated[
    bool, typer.Option("--stories", help="Tell every counterexample, not only a shortest.")
]
Sizes = Annotated[
    list[str] | None,
    typer.Option("--size", metavar="SORT=N", help="Of your own: elements of a sort."),
]
Faults = Annotated[
    int | None, typer.Option("--faults", min=0, help="Of your own: how many faults may happen.")
]
Bound = Annotated[
    int | None, typer.Option("--bound", min=1, help="Of your own: the largest natural.")
]
Prove = Annotated[bool, typer.Option("--prove/--no-prove", help="Of your own: prove it, too.")]
Mutate = Annotated[
    bool, typer.Option("--mutate", help="Would the properties notice mistakes? (Takes minutes.)")
]
CodeOption = Annotated[
    str | None,
    typer.Option(
        "--code",
        metavar="MODULE:ADAPTER",
        help="Of your own: the adapter of the code to hold to it.",
    ),
]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write the verdicts as JUnit XML.")
]
Sarif = Annotated[
    Path | None, typer.Option("--sarif", metavar="FILE", help="Write what fails as SARIF 2.1.0.")
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write one page: table, stories, …")
]
Annotations = Annotated[
    bool | None,
    typer.Option("--annotations/--no-annotations", help="Say what fails as GitHub reads it."),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Do everything again, and keep it.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither read nor keep verdicts.")]
CacheFolder = Annotated[
    Path | None,
    typer.Option("--cache", metavar="DIR", help="Where verdicts are kept (.herdproof/cache)."),
]


def verify(
    what: What = None,
    quick: Quick = False,
    stories: Stories = False,
    size: Sizes = None,
    faults: Faults = None,
    bound: Bound = None,
    within: WithinOption = False,
    prove: Prove = True,
    mutate: Mutate = False,
    code: CodeOption = None,
    json: JsonOption = None,
    junit: Junit = None,
    sarif: Sarif = None,
    html: Html = None,
    annotations: Annotations = None,
    fresh: Fresh = False,
    no_cache: NoCache = False,
    cache: CacheFolder = None,
) -> None:
    """Explore, prove and conform whole protocols, in one table."""
    from herdproof.report.table import report_json
    from herdspec.check.plans import FULL, QUICK
    from herdspec.check.verdict import standing_of

    out = Output(json)
    files = {"--junit": junit, "--sarif": sarif, "--html": html}
    check_writable(files)
    for file in filter(None, files.values()):
        remove_old(file)
    kept = opened(cache, fresh, no_cache)
    with out.progress("reading the specs"):
        own = Own(tuple(size or ()), faults, prove, mutate, bound, within, code)
        plans = [planned(name, QUICK if quick else FULL, own) for name in named(what, own)]
    out.note(own.notes)
    reports = carried_out(out, plans, kept, stories)
    standing = standing_of(f for report in reports for f in report.findings)
    out.json(verdicts_json(reports, standing.value, report_json))
    write_files(reports, files)
    annotate(out, reports, annotations)
    raise typer.Exit(standing.value)


# ── What is verified ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Own:
    """The way in which specs of one's own are looked at, where the command line says so."""

    sizes: tuple[str, ...] = ()
    faults: int | None = None
    prove: bool = True
    mutate: bool = False
    bound: int | None = None
    within: bool = False
    code: str | None = None
    notes: list[str] = field(default_factory=list, compare=False)
    """Notes on them, as they are read."""


def named(what: list[str] | None, own: Own) -> list[str]:
    """The names asked for; raises `UsageError` where options do not go with them."""
    from herdspec.check.protocol import in_order, names

    wanted = what or in_order()
    fixed = [name for name in wanted if name in names()]
    if fixed and own != Own(mutate=own.mutate):
        raise UsageError(
            f"--size, --faults, --bound, --within, --no-prove and --code are for specs of your own;"
            f" {fixed[0]} has a plan (try --quick, or `herdproof explore {fixed[0]}` at any size)"
        )
    return wanted


def planned(name: str, scale: Scale, own: Own) -> Plan:
    """The checks of a protocol's spec and of its implementation, or of specs of one's own."""
    from herdproof.protocols.implementation import implementation
    from herdspec.check.plans import of_specs, plan_of
    from herdspec.check.protocol import names

    if name in names():
        plan = plan_of(name, scale, mutate=own.mutate)
        return plan.also(*implementation(name).checks_for(plan.verified))
    found = subjects(name)
    own.notes.extend(sentence for subject in found for sentence in subject.left_out)
    wanted = [looked(name, subject, own) for subject in found]
    plan = of_specs(name, wanted, prove=own.prove, mutate=own.mutate)
    return plan.also(*held(found, wanted, own))


def held(found: Sequence[Subject], wanted: Sequence[CheckConfig], own: Own) -> list[Check]:
    """The checks of the code of specs of one's own, where there is some."""
    if not found[0].module:
        if own.code is not None:
            raise UsageError(f"--code is for specs in a file, and {found[0].name} is in none")
        return []
    from herdproof.cli.code.code import code_of
    from herdproof.conformance.checks import checks_of

    code = code_of(found, own.code)
    return [c for of in wanted if of.subject in code for c in checks_of(of, code[of.subject])]


def subjects(name: str) -> list[Subject]:
    """One spec, or all of a file."""
    from herdproof.cli.specs import all_in_file, find

    return all_in_file(Path(name)) if name.endswith(".py") else [find(name)]


def looked(name: str, subject: Subject, own: Own) -> CheckConfig:
    """A spec at the size that the command line says, or else its file, or else the usual one."""
    from herdproof.cli.spec.mutate import spec_of
    from herdproof.cli.specs import sizes_of, whole_name
    from herdspec.check.plans import CheckConfig

    given = sizes_of(subject.spec, list(own.sizes))
    asked = {text.partition("=")[0] for text in own.sizes}
    sizes = given | {name: n for name, n in subject.sizes.items() if name not in asked}
    faults = subject.faults if own.faults is None else own.faults
    return CheckConfig(
        subject.name, subject.spec, sizes, faults, subject.declared,
        exactly=subject.exactly_at(sizes, faults), may_end=subject.may_end,
        bound=subject.bound if own.bound is None else own.bound,
        within=own.within or subject.within,
        source=partial(spec_of, whole_name(name, subject)),
    )  # fmt: skip


# ── How it is carried out ───────────────────────────────────────────────────────────────────


def opened(folder: Path | None, fresh: bool, no_cache: bool) -> Cache | None:
    """The verdicts that were kept, if they are to be; raises `UsageError` for a contradiction."""
    from herdspec.check.cache import DEFAULT, Cache

    if no_cache and (fresh or folder):
        raise UsageError("--no-cache keeps nothing: give it without --fresh and --cache")
    return None if no_cache else Cache(folder or DEFAULT, fresh)


def carried_out(
    out: Output, plans: list[Plan], cache: Cache | None, stories: bool
) -> list[PlanReport]:
    """All plans, one after another; each report is printed when it is there."""
    from herdproof.report.kept import print_sentences
    from herdproof.report.table import print_report
    from herdspec.check.side_by_side import processors
    from herdspec.check.verify import verify as carry_out

    reports = []
    for plan in plans:
        report = carry_out(plan, watch(out, plan), survived_errors(), cache, processors())
        print_report(out, report, stories)
        reports.append(report)
    print_sentences(out, reports)
    for note in cache.notes if cache else ():
        out.errors.print(f"herdproof: {note}", markup=False, highlight=False, soft_wrap=True)
    return reports


def survived_errors() -> tuple[type[Exception], ...]:
    """A check that cannot run for want of a service is unknown; the others go on."""
    from herdproof.errors import HerdError

    return (HerdError,)


def watch(out: Output, plan: Plan) -> Callable[[Check], AbstractContextManager[Tell]]:
    """Show each check's progress, with its number."""
    number = count(1)

    @contextmanager
    def watched(check: Check) -> Iterator[Tell]:
        with out.progress(f"{next(number)}/{len(plan.checks)} {check.name}") as tell:
            yield tell

    return watched


# ── Who else reads it ───────────────────────────────────────────────────────────────────────


def verdicts_json(
    reports: list[PlanReport], code: int, one: Callable[[PlanReport], dict[str, Any]]
) -> dict[str, Any]:
    """All reports as JSON, and the table of the contract's sentences."""
    from herdproof.report.kept import sentences_json

    return {
        "command": "verify", "exit": code, "protocols": [one(report) for report in reports],
        "sentences": sentences_json(reports),
    }  # fmt: skip


def write_files(reports: list[PlanReport], files: Mapping[str, Path | None]) -> None:
    """Write what was asked for; each format is made where it is needed."""
    for option, path in files.items():
        if path is not None:
            write_file(option, path, formatted(option, reports))


def formatted(option: str, reports: list[PlanReport]) -> str:
    """The reports in the format of this option."""
    match option:
        case "--junit":
            from herdproof.report.junit import junit

            return junit(reports)
        case "--sarif":
            from herdproof.report.sarif import sarif

            return sarif(reports)
        case "--html":
            from herdproof.report.html import page

            return page(reports)
    raise AssertionError(f"no format belongs to {option}")


def annotate(out: Output, reports: list[PlanReport], wanted: bool | None) -> None:
    """Say what fails as GitHub's log reads it; without being asked only within GitHub Actions."""
    from herdproof.report.github import commands

    if wanted or (wanted is None and os.environ.get("GITHUB_ACTIONS") == "true"):
        for line in commands(reports):
            out.line(line)
