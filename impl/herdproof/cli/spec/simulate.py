"""`herdproof simulate SPEC`: millions of random steps, at sizes that nothing else reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.cli.options import (
    BoundOption,
    MayEndOption,
    SaveStoriesOption,
    SizeOption,
    SpecArgument,
)
from herdproof.report.render import NO_STEP, JsonOption, Output, spoken, table_of
from herdspec.check.verdict import ALWAYS_A_STEP, Standing, counted, sized
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdspec.check.exploration.explore import Story
    from herdspec.check.simulation.simulate import Simulation


def simulate(
    spec: SpecArgument,
    size: SizeOption = None,
    faults: Annotated[int, typer.Option(min=0, help="How many faults in each walk.")] = 2,
    bound: BoundOption = None,
    steps: Annotated[int, typer.Option(min=1, help="So many steps, in all walks.")] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed walks the same walks.")] = 0,
    length: Annotated[int, typer.Option(min=1, help="The longest walk.")] = 100,
    weight: Annotated[
        list[str] | None,
        typer.Option("--weight", metavar="ACTION=W", help="How likely an action is (1)."),
    ] = None,
    may_end: MayEndOption = False,
    save_stories: SaveStoriesOption = None,
    json: JsonOption = None,
) -> None:
    """Walk at random through a spec. What is found is told, nothing found is no proof."""
    from herdproof.cli.specs import read, sizes_of, whole_name
    from herdspec.check.simulation.simulate import simulate as walk

    out = Output(json)
    subject = read(out, spec)
    sizes = sizes_of(subject.spec, size or [])
    with out.progress(f"simulate {subject.name}") as tell:
        found = walk(
            subject.spec, sizes, faults=faults, bound=subject.bound if bound is None else bound,
            steps=steps, seed=seed, length=length, weights=weights_of(weight or []),
            witnesses=save_stories is not None,
            progress=lambda done: tell(f"{done:,} steps", min(1.0, done / steps)),
        )  # fmt: skip
    failures = failures_of(subject, found, may_end=may_end)
    standing = Standing.FAILS if failures else Standing.HOLDS
    print_simulation(out, subject, found, may_end=may_end)
    if save_stories is not None:
        from herdproof.cli.code import stories

        machine = stories.machine_at(subject.spec, found)
        told = stories.FoundStories(machine, stories_of(found, may_end=may_end), found.witnesses)
        stories.save_stories(out, save_stories, whole_name(spec, subject), told)
    print_conclusion(out, found, failures)
    out.json(simulation_json(found, failures, standing.value))
    raise typer.Exit(standing.value)


def weights_of(given: list[str]) -> dict[str, float]:
    """The weights of actions from `action=3`; raises `UsageError`."""
    found = {}
    for text in given:
        name, _, number = text.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise UsageError(f"--weight {text}: write ACTION=NUMBER, as in grant=3") from None
    return found


def stories_of(found: Simulation, *, may_end: bool) -> dict[str, Story]:
    """The stories that were found, by the name of what they break."""
    stories = dict(found.violations)
    if found.deadlock is not None and not may_end:
        stories[ALWAYS_A_STEP] = found.deadlock
    return stories


def failures_of(subject: Subject, found: Simulation, *, may_end: bool) -> list[str]:
    """The failures found that are not declared; a walk may show a declared one at any length."""
    return [n for n in stories_of(found, may_end=may_end) if n not in subject.declared]


def print_simulation(out: Output, subject: Subject, found: Simulation, *, may_end: bool) -> None:
    """Print how far the walks went, how often each action was taken, and what they came upon."""
    out.line(f"{subject.name}: {subject.spec.sentence}")
    out.line(
        f"{sized(found.spec, found.sizes, found.faults)}, naturals up to {found.bound}, "
        f"seed {found.seed}: {found.steps:,} steps in {found.walks:,} walks, "
        f"about {found.distinct:,} states, {found.dropped:,} steps beyond the bound, "
        f"{found.seconds:.1f} s"
    )
    out.line()
    table = table_of("action", "kind", "taken")
    table.columns[2].justify = "right"
    for action in found.spec.actions:
        count = found.taken[action.name]
        table.add_row(action.name, action.kind.value, f"{count:,}" if count else "never")
    out.table(table)
    for name, lines in found.untaken.items():
        out.line(f"{name}: no step covered the branches at {', '.join(map(str, lines))}")
    if found.unseen or found.unjudged:
        out.line()
    for words, names in (("never seen", found.unseen), ("not for walks to judge", found.unjudged)):
        if names:
            out.line(f"{words}: {', '.join(map(spoken, names))}")
    for name, story in stories_of(found, may_end=may_end).items():
        declared = " (declared)" if name in subject.declared else ""
        out.line()
        out.line(f"{spoken(name)}, broken after {counted(len(story.steps), 'step')}{declared}:")
        for line in story.lines:
            out.line(f"  {line}")
        if name == ALWAYS_A_STEP:
            out.line(f"       {NO_STEP}")


def print_conclusion(out: Output, found: Simulation, failures: list[str]) -> None:
    """Print what was found, or that nothing was, in so many steps."""
    out.line()
    if failures:
        words = ", ".join(map(spoken, failures))
        out.line(f"It fails: {words}. The story is shortened, not a shortest one.", style="red")
    else:
        known = " but what is declared" if found.violations else ""
        out.line(f"Nothing was found{known} in {found.steps:,} steps, which proves nothing.")
        if found.dropped:
            steps = counted(found.dropped, "step")
            out.line(f"Beyond the bound {steps} were not taken: raise it, with --bound.")


def simulation_json(found: Simulation, failures: list[str], code: int) -> dict[str, Any]:
    """A simulation as JSON."""
    return {
        "command": "simulate", "exit": code, "spec": found.spec.name, "sizes": dict(found.sizes),
        "faults": found.faults, "bound": found.bound, "seed": found.seed, "steps": found.steps,
        "walks": found.walks, "seconds": found.seconds, "distinct_estimate": found.distinct,
        "dropped": found.dropped, "taken": found.taken, "untaken_branches": found.untaken,
        "seen": found.seen, "unseen": found.unseen, "unjudged": found.unjudged,
        "violations": {name: story.lines for name, story in found.violations.items()},
        "deadlock": found.deadlock.lines if found.deadlock else None, "failures": failures,
    }  # fmt: skip
