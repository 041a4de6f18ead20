"""`herdproof explore SPEC`: every reachable state at a size; counts, witnesses, counterexamples."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.cli.render import (
    COLOURS,
    JsonOption,
    Output,
    coloured,
    conclusion,
    findings_json,
    spoken,
    story,
    table_of,
    verdict,
)

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdspec.check.explore import Exploration
    from herdspec.check.verdict import Finding

SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="election, election-drafted, election/FLAW, or path/to/file.py:ClassName.",
    ),
]


def explore(
    spec: SpecArgument,
    size: Annotated[
        list[str] | None,
        typer.Option("--size", metavar="SORT=N", help="Elements of a sort (2 where not said)."),
    ] = None,
    faults: Annotated[int, typer.Option(min=0, help="How many faults may happen.")] = 2,
    bound: Annotated[
        int | None, typer.Option(min=1, help="The largest natural (faults + 1 where not said).")
    ] = None,
    symmetry: Annotated[
        bool, typer.Option("--symmetry/--no-symmetry", help="Take states up to renaming.")
    ] = True,
    memory_gb: Annotated[
        float, typer.Option("--memory-gb", min=0, help="Stop at so much memory (exit 3).")
    ] = 8.0,
    tell: Annotated[
        str | None,
        typer.Option("--story", metavar="PROPERTY", help="Tell this property's story."),
    ] = None,
    may_end: Annotated[
        bool, typer.Option("--may-end", help="A state without a next step is no failure.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Explore every reachable state of a spec, at one size."""
    from herdproof.cli.specs import find, promise_of, sizes_of
    from herdspec.check.explore import explore as search
    from herdspec.check.verdict import explored, standing_of
    from herdspec.check.verify import levels

    out = Output(json)
    with out.progress("reading the spec"):
        subject = find(spec)
    sizes = sizes_of(subject.spec, size or [])
    wanted = promise_of(subject.spec, tell) if tell else None
    begun = perf_counter()
    with out.progress(f"explore {subject.name}") as progress:
        result = search(
            subject.spec, sizes, faults=faults, bound=bound, symmetry=symmetry,
            memory_bytes=int(memory_gb * (1 << 30)), progress=levels(progress),
        )  # fmt: skip
    exactly = subject.exactly_at(sizes, faults)
    findings = explored(subject.name, result, subject.declared, exactly=exactly, may_end=may_end)
    print_exploration(out, subject, result, findings, perf_counter() - begun)
    print_story(out, findings, wanted)
    standing = standing_of(findings)
    print_conclusion(out, subject, findings, exactly)
    out.json(exploration_json(result, findings, standing.value))
    raise typer.Exit(standing.value)


def print_exploration(
    out: Output, subject: Subject, result: Exploration, findings: list[Finding], seconds: float
) -> None:
    """Counts, actions and verdicts."""
    from herdspec.check.verdict import bounds_of, measured_by

    out.line(f"{subject.name}: {subject.spec.sentence}")
    out.line(f"{bounds_of(result)}: {measured_by(result)}, {seconds:.1f} s")
    out.line()
    table = table_of("action", "kind", "taken")
    table.columns[2].justify = "right"
    for action in subject.spec.actions:
        count = result.taken[action.name]
        table.add_row(action.name, action.kind.value, f"{count:,}" if count else "never")
    out.table(table)
    out.line()
    table = table_of("property", "demand", "verdict")
    for f in findings:
        table.add_row(spoken(f.row), f.kind, coloured(f, verdict(f)))
    out.table(table)


def print_story(out: Output, findings: list[Finding], wanted: str | None) -> None:
    """The story that was asked for, or a shortest counterexample."""
    told = [f for f in findings if f.story and f.row == wanted]
    if wanted is None:
        broken = [f for f in findings if f.story and f.found and f.kind != "sometimes"]
        told = sorted(broken, key=lambda f: f.found.steps if f.found else 0)[:1]
    for finding in told:
        out.line()
        for line in story(finding):
            out.line(line)
    if wanted and not told:
        out.line()
        out.line(f"{spoken(wanted)}: there is no story to tell, nothing breaks it here")


def print_conclusion(out: Output, subject: Subject, findings: list[Finding], exactly: bool) -> None:
    """The verdict in one line, and what was expected of a known spec."""
    from herdspec.check.verdict import standing_of

    standing = standing_of(findings)
    expected = sum(f.is_expected_failure for f in findings)
    out.line()
    if subject.declared and not exactly:
        out.line(
            f"Failures of {subject.name} are declared for 2 brokers and {subject.faults} faults; "
            "at this size the declared ones may have any length, or be missing."
        )
    out.line(conclusion(standing, expected), style=COLOURS[standing])


def exploration_json(result: Exploration, findings: list[Finding], code: int) -> dict[str, Any]:
    """An exploration as JSON."""
    r = result
    return {
        "command": "explore", "exit": code, "spec": r.spec.name, "sizes": dict(r.sizes),
        "faults": r.faults, "bound": r.bound, "states": r.states, "orbits": r.orbits,
        "generated": r.generated, "depth": r.depth, "dropped": r.dropped,
        "truncated": r.truncated, "symmetric": r.symmetric, "taken": r.taken,
        "findings": findings_json(findings),
    }  # fmt: skip
