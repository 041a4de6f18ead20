"""`herdproof mutate SPEC`: do the properties notice when the spec is wrong?"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.cli.options import BoundOption, FaultsOption, SizeOption, SpecArgument, WithinOption
from herdproof.report.render import COLOURS, JsonOption, Output, spoken, table_of
from herdspec.check.verdict import Standing, counted
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdspec.check.mutation.mutate import AcceptedMutant, Mutation
    from herdspec.check.plans import CheckConfig
    from herdspec.language.specification import Specification


def mutate(
    spec: SpecArgument,
    size: SizeOption = None,
    faults: FaultsOption = 1,
    bound: BoundOption = None,
    within: WithinOption = False,
    reasons: Annotated[
        Path | None,
        typer.Option("--reasons", metavar="FILE", help='TOML: "mutant" = "why it may survive".'),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Judge so many at a time.")] = min(
        2, os.cpu_count() or 1
    ),
    json: JsonOption = None,
) -> None:
    """Put mistakes into a spec, and see which no property notices."""
    from herdproof.cli.specs import read, sizes_of
    from herdspec.check.mutation.mutate import Bounds, reasons_of
    from herdspec.check.mutation.mutate import mutate as judge

    out = Output(json)
    subject, further = replace(read(out, spec), spec=spec_of(spec)), []
    in_turn = in_turn_of(spec)
    if in_turn and not size and bound is None:
        first, *further = in_turn()
        sizes, faults, bound = first.sizes, first.faults, first.bound
    else:
        sizes = sizes_of(subject.spec, size or [])
    accepted = {**reasons_of(subject.spec), **(reasons_in(reasons) if reasons else {})}
    with out.progress(f"mutate {subject.name}") as tell:
        found = judge(
            subject.spec, sizes, faults=faults, bound=subject.bound if bound is None else bound,
            within=within or subject.within, reasons=accepted,
            further=[Bounds(at.sizes, at.faults, at.bound) for at in further],
            source=partial(spec_of, spec), processes=processes,
            progress=lambda done, of: tell(f"{done} of {of} mutants", done / of),
        )  # fmt: skip
    print_mutation(out, subject, found)
    out.json(mutation_json(found))
    raise typer.Exit(found.standing.value)


def spec_of(name: str) -> Specification:
    """The spec that a command was asked about, for processes that make it again."""
    from herdproof.cli.specs import find

    in_turn = in_turn_of(name)
    return in_turn()[0].spec if in_turn else find(name).spec


def in_turn_of(name: str) -> Callable[[], Sequence[CheckConfig]] | None:
    """At which sizes a protocol says that mistakes are to be looked for, if it does."""
    from herdspec.check.protocol import names, protocol

    return protocol(name).mistaken if name in names() else None


def reasons_in(file: Path) -> Mapping[str, str]:
    """The reasons in a TOML file; raises `UsageError`."""
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else f"it is no TOML: {error}"
        raise UsageError(f"--reasons {file} cannot be read: {what}") from None
    if not all(isinstance(why, str) and why for why in found.values()):
        raise UsageError(f'--reasons {file}: write "mutant" = "why it may survive"')
    return found


def print_mutation(out: Output, subject: Subject, found: Mutation) -> None:
    """The score, who killed how many, and each survivor with what is missing."""
    out.line(f"{subject.name}: {subject.spec.sentence}")
    score = "no score" if found.score is None else f"score {found.score:.0%}"
    out.line(f"{'; then '.join(found.at)}: {score}, {found.summary}")
    if found.cut:
        out.line(f"the original goes beyond {found.cut}: what differs only there is unknown")
    out.line()
    print_killers(out, found)
    for title, ids in (
        ("Fails without any mistake at this size, and so notices none", found.failing),
        ("No difference at this size", found.equivalent),
        ("Unknown: cut short, or beyond the bound of naturals", found.unknown),
        ("Refused by the language", found.refused),
        ("Stale reasons: no such mutant survives", found.stale),
    ):
        if ids:
            out.line()
            out.line(f"{title}:")
            for id in ids:
                out.line(f"  {id if ':' in id else spoken(id)}")
                if id in found.excused:
                    out.line(f"    accepted: {found.excused[id]}")
    for survivor in found.survivors:
        print_survivor(out, survivor)
    out.line()
    out.line(concluded(found), style=COLOURS[found.standing])


def print_killers(out: Output, found: Mutation) -> None:
    """Which property killed how many, and the shortest story of it."""
    table = table_of("killed by", "mutants", "shortest")
    for column in table.columns[1:]:
        column.justify = "right"
    by: dict[str, list[int]] = {}
    for killed in found.killed:
        by.setdefault(killed.by, []).append(killed.steps)
    for name, steps in sorted(by.items(), key=lambda item: -len(item[1])):
        told = [n for n in steps if n >= 0]
        shortest = counted(min(told), "step") if told else "no state shows it"
        table.add_row(spoken(name), str(len(steps)), shortest)
    out.table(table)


def print_survivor(out: Output, survivor: AcceptedMutant) -> None:
    """A survivor: where, what, the behaviour that tells it apart, and what is missing."""
    out.line()
    out.line(f"{from_here(survivor.file)}:{survivor.line}: {survivor.id}")
    if survivor.differs:
        way = f"after {', '.join(survivor.story)}" if survivor.story else "at the start"
        out.line(f"  {way}: {survivor.differs}")
    out.line(f"  {survivor.missing}")
    if survivor.reason is not None:
        out.line(f"  accepted: {survivor.reason}")


def from_here(file: str) -> str:
    """A file's path from the present folder, if it lies below it."""
    path, here = Path(file).resolve(), Path.cwd().resolve()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def concluded(found: Mutation) -> str:
    """The last line."""
    match found.standing:
        case Standing.HOLDS:
            return "Every mutant is noticed, or accepted with a reason."
        case Standing.UNKNOWN:
            return "Unknown: mutants were cut short, or there was none to judge."
    words = []
    if found.holes:
        words.append(f"the properties have {counted(len(found.holes), 'hole')}")
    if found.stale:
        words.append(f"{counted(len(found.stale), 'reason')} to be removed")
    return f"It fails: {', '.join(words)}."


def mutation_json(found: Mutation) -> dict[str, Any]:
    """A mutation run as JSON."""
    return {
        "command": "mutate", "exit": found.standing.value, "spec": found.spec,
        "sizes": dict(found.sizes), "faults": found.faults, "bound": found.bound, "at": found.at,
        "score": found.score, "killed": [vars(k) for k in found.killed],
        "survivors": [vars(s) for s in found.survivors], "equivalent": found.equivalent,
        "unknown": found.unknown, "refused": found.refused, "stale": found.stale,
        "failing": found.failing, "excused": found.excused, "cut": found.cut,
    }  # fmt: skip
