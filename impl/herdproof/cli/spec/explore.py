"""`herdproof explore SPEC`: every reachable state at a size; counts, witnesses, counterexamples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from herdproof.cli.options import (
    BoundOption,
    FaultsOption,
    MayEndOption,
    SaveStoriesOption,
    SizeOption,
    SpecArgument,
    WithinOption,
)
from herdproof.cli.spec.explore_spark import (
    NOT_ON_SPARK,
    CheckpointOption,
    SparkOption,
    check_options,
    search_on_spark,
)
from herdproof.cli.spec.watch import WatchOption, every_save
from herdproof.report.explored import (
    exploration_json,
    print_conclusion,
    print_exploration,
    print_story,
    print_why,
)
from herdproof.report.render import JsonOption, Output, spoken, write_file
from herdspec.language.errors import UsageError
from herdspec.language.surface import Expectation

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdspec.check.exploration.explore import Estimate, Exploration, Story
    from herdspec.check.liveness.liveness import Liveness
    from herdspec.check.verdict import Standing
    from herdspec.check.verify import Tell
    from herdspec.language.specification import Specification
    from herdspec.language.surface import Property


def explore(
    spec: SpecArgument,
    size: SizeOption = None,
    faults: FaultsOption = 2,
    bound: BoundOption = None,
    within: WithinOption = False,
    constraint: Annotated[
        str | None,
        typer.Option(metavar="PROPERTY", help="Do not go on from states without this property."),
    ] = None,
    symmetry: Annotated[
        bool | None,
        typer.Option(
            "--symmetry/--no-symmetry",
            help="Take states up to renaming (where it is exact, if not said).",
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="ENGINE", help="numpy, native, or auto: the faster one.")
    ] = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, max=2, help="Threads of the native engine.")
    ] = None,
    memory_gb: Annotated[
        float, typer.Option("--memory-gb", min=0, help="Stop at so much memory (exit 3).")
    ] = 8.0,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Put the search aside if it is cut short, or at Ctrl-C."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Go on with a search that was put aside.")
    ] = None,
    spark: SparkOption = None,
    checkpoint: CheckpointOption = None,
    why: Annotated[bool, typer.Option("--why", help="Say why the space is large.")] = False,
    tell: Annotated[
        str | None,
        typer.Option("--story", metavar="PROPERTY", help="Tell this property's story."),
    ] = None,
    may_end: MayEndOption = False,
    graph: Annotated[
        Path | None,
        typer.Option("--graph", metavar="FILE", help="Write the state graph (.dot, .json)."),
    ] = None,
    save_stories: SaveStoriesOption = None,
    watch: WatchOption = False,
    json: JsonOption = None,
) -> None:
    """Explore every reachable state of a spec, at one size."""
    from herdproof.cli.specs import read

    out = Output(json)
    asked = ExploreOptions(
        spec=spec, size=size or [], tell=tell, may_end=may_end, why=why, graph=graph,
        save_stories=save_stories, constraint=constraint, faults=faults, bound=bound, within=within,
        symmetry=symmetry, memory_bytes=int(memory_gb * (1 << 30)), engine=engine,
        threads=threads, save=save, resume=resume, spark=spark, checkpoint=checkpoint,
    )  # fmt: skip
    check_options(asked, watch)
    if watch:
        every_save(out, spec, partial(asked.check, out))
    subject = read(out, spec)
    raise typer.Exit(asked.check(out, subject).value)


@dataclass(frozen=True, kw_only=True)
class ExploreOptions:
    """Options of `explore`: what to tell, and how to search (as `explore()` has it)."""

    spec: str
    size: list[str]
    tell: str | None
    may_end: bool
    why: bool
    graph: Path | None
    save_stories: Path | None
    constraint: str | None
    faults: int
    bound: int | None
    within: bool
    symmetry: bool | None
    memory_bytes: int
    engine: str
    threads: int | None
    save: Path | None
    resume: Path | None
    spark: str | None
    checkpoint: Path | None

    def check(self, out: Output, subject: Subject) -> Standing:
        """Explore, and print all that there is to say."""
        from herdproof.cli.specs import promise_of, sizes_of
        from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED
        from herdspec.check.liveness.liveness import live
        from herdspec.check.verdict import (
            ALWAYS_A_STEP,
            explored,
            lived,
            standing_of,
        )

        sizes = sizes_of(subject.spec, self.size)
        wanted = self.tell and spoken(self.tell)
        if self.tell and wanted not in (ALWAYS_A_STEP, EVERY_VALUE_IS_DEFINED):
            wanted = promise_of(subject.spec, self.tell)
        spec, limit = constrained(subject.spec, self.constraint)
        self = self.as_said_by(subject)
        result = self.search(out, spec, sizes, limit)
        exactly = subject.exactly_at(sizes, self.faults) and limit is None
        may_end = self.may_end or subject.may_end
        findings = explored(
            subject.name, result, subject.declared, exactly=exactly, may_end=may_end
        )
        stories, also = {**result.violations}, ""
        if result.deadlock is not None and not may_end:
            stories[ALWAYS_A_STEP] = result.deadlock
        if live(spec):
            endless = self.live(out, spec, result)
            findings += lived(subject.name, endless, subject.declared, exactly=exactly)
            stories |= endless.violations
            also = "" if self.spark else f"liveness, without symmetry: {endless.measured}"
        print_exploration(out, subject.name, result, findings)
        if also:
            out.line(also)
        if self.why:
            print_why(out, result)
        print_story(out, findings, wanted)
        self.write(out, subject, result, limit, stories)
        standing = standing_of(findings)
        print_conclusion(out, findings, "" if exactly else subject.expected)
        out.json(exploration_json(result, findings, standing.value))
        return standing

    def as_said_by(self, subject: Subject) -> ExploreOptions:
        """This question, with the bound that the spec's file says where the command says none."""
        bound = subject.bound if self.bound is None else self.bound
        return replace(self, bound=bound, within=self.within or subject.within)

    def search(
        self, out: Output, spec: Specification, sizes: Mapping[str, int], limit: Property | None
    ) -> Exploration:
        """Explore, with its progress."""
        from herdspec.check.exploration.explore import explore as search

        if self.spark is not None:
            with out.progress(f"explore {spec.name} on Spark") as tell:
                return search_on_spark(self, out, spec, sizes, limit, Shown(tell))
        with out.progress(f"explore {spec.name}") as tell, self.put_aside(out):
            shown = Shown(tell)
            found = search(
                spec, sizes, faults=self.faults, bound=self.bound, symmetry=self.symmetry,
                memory_bytes=self.memory_bytes, engine=self.engine, threads=self.threads,
                constraint=limit, save=self.save, resume=self.resume, within=self.within,
                progress=shown.level, estimates=shown.estimate,
            )  # fmt: skip
        if found.truncated and self.save:
            out.line(f"put aside: go on with --resume {self.save}")
        return found

    def live(self, out: Output, spec: Specification, explored: Exploration) -> Liveness:
        """Judge what must happen, on the whole graph; of one that is not whole, nothing."""
        from herdspec.check.liveness.liveness import Liveness, liveness

        sizes, bound = explored.sizes, explored.bound
        if explored.constrained or self.spark is not None:
            found = Liveness(spec, sizes, self.faults, bound, self.memory_bytes)
            cut = f"cut at the constraint {explored.constraint}"
            found.undecided = dict.fromkeys(found.promised, NOT_ON_SPARK if self.spark else cut)
            return found
        with out.progress(f"liveness of {spec.name}") as tell:
            return liveness(
                spec, sizes, faults=self.faults, bound=bound, symmetry=self.symmetry,
                memory_bytes=self.memory_bytes, progress=Shown(tell).level,
            )  # fmt: skip

    @contextmanager
    def put_aside(self, out: Output) -> Iterator[None]:
        """Say, if Ctrl-C ends the search, where it was put aside, if it was by then."""
        before = written_at(self.save)
        try:
            yield
        except KeyboardInterrupt:
            if self.save and written_at(self.save) != before:
                out.errors.print(f"put aside: go on with --resume {self.save}", markup=False)
            elif self.save:
                out.errors.print(f"nothing was put aside in {self.save}", markup=False)
            raise

    def write(
        self, out: Output, subject: Subject, result: Exploration, limit: Property | None,
        stories: Mapping[str, Story],
    ) -> None:  # fmt: skip
        """Write the files that are asked for."""
        if self.graph is not None:
            write_graph(out, self.graph, result, limit)
        if self.save_stories is not None:
            from herdproof.cli.code.stories import FoundStories, machine_at, save_stories
            from herdproof.cli.specs import whole_name

            found = FoundStories(machine_at(subject.spec, result), stories, result.witnesses)
            save_stories(out, self.save_stories, whole_name(self.spec, subject), found)


def written_at(file: Path | None) -> int | None:
    """When a file was written, in nanoseconds; None where it is not there."""
    return file.stat().st_mtime_ns if file is not None and file.exists() else None


def constrained(spec: Specification, name: str | None) -> tuple[Specification, Property | None]:
    """The spec without the property that is its constraint, and the constraint."""
    from herdproof.cli.specs import promise_of

    if name is None:
        return spec, None
    promise = spec.promise(promise_of(spec, name))
    if promise.expectation is not Expectation.ALWAYS:
        what = f"--constraint {name}: it is a @{promise.expectation.value}"
        raise UsageError(f"{what}; write it as a function of one state, marked @always")
    others = tuple(p for p in spec.properties if p is not promise)
    return replace(spec, properties=others), promise.python


@dataclass
class Shown:
    """Shows how far a search is: the level, and what it may come to."""

    tell: Tell
    words: str = ""
    states: int = 0
    waiting: int = 0

    def level(self, depth: int, states: int, waiting: int) -> None:
        """After each level: its number, the states so far, those still to be expanded."""
        from herdspec.check.verdict import counted

        self.words = f"level {depth}, {counted(states, 'state')}, {waiting:,} to expand"
        self.states, self.waiting = states, waiting
        self.tell(self.words, None)

    def estimate(self, guess: Estimate) -> None:
        """After each level, where it can be guessed how many states there will be."""
        done = (self.states - self.waiting) / max(guess.states, 1)
        words = f"about {guess.states:,} in all, {guess.seconds:,.0f} s to go"
        self.tell(f"{self.words}; {words}", min(done, 1.0))


def write_graph(out: Output, file: Path, result: Exploration, limit: Property | None) -> None:
    """Write the state graph; raises `UsageError` where it is too large, or has no place."""
    from herdspec.check.exploration.graph_export import format_of, state_graph

    write, r = format_of(file), result
    graph = state_graph(r.spec, r.sizes, faults=r.faults, bound=r.bound, constraint=limit)
    write_file("--graph", file, write(graph))
    out.line()
    out.line(f"the state graph: {len(graph.nodes)} states, {len(graph.edges)} steps, in {file}")
