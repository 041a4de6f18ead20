"""
Explore a spec on Spark: the local explorer's search, level by level, with its states in files.

    herdproof explore SPEC --spark MASTER --checkpoint DIRECTORY
    spark-submit --py-files herdproof.zip explore_spark.py SPEC --checkpoint DIRECTORY

Each level takes two jobs: its states are *expanded*, their successors *settled* (see
`explore_worker`). The driver plans tasks, adds up counts and commits the level; states and
successors go from worker to worker through files. States get the numbers that the local explorer
gives them, so that every count, verdict and story is the same; a story's states are looked up back
through the levels, one by one.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from uuid import uuid4

import numpy as np

from herdproof.errors import WorldError
from herdproof.pipeline.exploration.kernel import kernel_of, shards_of, shipped
from herdproof.pipeline.exploration.levels import (
    FEW,
    STATES_A_TASK,
    Hop,
    Planner,
    Run,
    hop,
    is_small,
    runs_of,
)
from herdproof.pipeline.exploration.recover import Range
from herdproof.pipeline.exploration.recovery import GraphRecovery
from herdproof.pipeline.exploration.store import Entries, Level, SearchDirectory, with_ranks
from herdproof.pipeline.exploration.worker import PASSED, STATES, Search
from herdspec.check.exploration.checkpoint import digest_of_search
from herdspec.check.exploration.coverage import branches
from herdspec.check.exploration.exploration import Exploration, Progress, Story, Untaken
from herdspec.check.exploration.explore import LARGE, MEMORY_BYTES, Explorer
from herdspec.check.exploration.numpy_engine import NumPyEngine
from herdspec.check.exploration.size import Estimate, estimated_states
from herdspec.check.exploration.visited import Visited
from herdspec.check.running.retell import PathLink, first_instance
from herdspec.engine.columns import Words
from herdspec.engine.native_emit import UNDEFINED, Checks, Unsupported
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import Specification
from herdspec.language.surface import Property

KEEP_BYTES = 512 << 20
"""The memory in which each worker keeps shards."""
BRANCH = "branch "
"""Before the numbers of branches, which are looked for like witnesses."""


def explore_on(
    spark: Any,
    spec: Specification,
    sizes: Mapping[str, int],
    *,
    faults: int,
    bound: int | None = None,
    symmetry: bool | None = None,
    engine: str = "auto",
    constraint: Property | Callable[..., bool] | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
    estimates: Callable[[Estimate], None] | None = None,
) -> Exploration:
    """
    Explore a spec in a Spark session; what is not said here is as of the local `explore`.

    `checkpoint`: a directory that all machines of this Spark share, for the levels; on one machine
    a temporary one will do. `resume`: go on with what such a directory holds.
    """
    explorer = SparkExplorer(
        spec, sizes, faults, bound, symmetry, engine=engine, constraint=constraint
    )
    if kept := checkpoint or resume:
        explorer.open(kept, resume=resume is not None)
    return explorer.explore_on(spark, progress, estimates)


def on_spark(spark: Any) -> Run:
    """Run tasks as one job of Spark, each as a partition of its own."""
    from py4j.protocol import Py4JJavaError

    context = spark.sparkContext

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        try:
            found: list[Any] = context.parallelize(tasks, len(tasks)).map(function).collect()
        except Py4JJavaError as error:
            raise TaskFailed(why_failed(str(error.java_exception))) from error
        return found

    return run


class TaskFailed(WorldError):
    """A task failed on Spark, as often as Spark tries."""


def why_failed(told: str) -> str:
    """The reason in Spark's long words: the last line of Python's, or the first of all."""
    lines = [line for line in told.splitlines() if line.strip()]
    python = [
        line
        for line in lines
        if re.match(r"[\w.]+(Error|Exception|Interrupt|Exit)\b", line)
        and not line.startswith(("org.apache", "java."))
    ]
    line = python[-1] if python else lines[0] if lines else "it did not say why"
    return f"a task of the search failed on Spark: {line.strip()}"


class SparkExplorer(Explorer):
    """
    One search on Spark: `open` a directory, then `explore` in it.

    What is not said of the arguments is as of `Explorer`.
    """

    def __init__(
        self, spec: Specification, sizes: Mapping[str, int], faults: int,
        bound: int | None = None, symmetry: bool | None = None, *, engine: str = "auto",
        constraint: Property | Callable[..., bool] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(spec, sizes, faults, bound, symmetry, engine=engine, constraint=constraint)
        self.branches = branches(self.ground)
        self.committed: list[Level] = []
        self.cores: Callable[[], int] | None = None
        self._opened: SearchDirectory | None = None
        self._planner: Planner | None = None
        self._recovery: GraphRecovery | None = None

    @property
    def store(self) -> SearchDirectory:
        """The directory that was opened."""
        assert self._opened is not None, "a directory is opened before a search"
        return self._opened

    @property
    def planner(self) -> Planner:
        """The planner of the tasks of the search that goes on."""
        assert self._planner is not None, "it is made as the search begins"
        return self._planner

    # ── What is looked for ──────────────────────────────────────────────────────────────────

    def checks(self) -> Checks:
        """The checks of the local explorer, and each branch."""
        found = super().checks()
        taken = {
            f"{BRANCH}{k}": formula
            for k, formulas in enumerate(self.branches.values())
            if (formula := g.disj(*formulas)) is not g.FALSE
        }
        return replace(found, states={**found.states, **taken})

    # ── The search ──────────────────────────────────────────────────────────────────────────

    def open(self, folder: str | Path, *, resume: bool = False) -> None:
        """Keep the levels in this directory; `resume` takes those that it has."""
        self._opened = SearchDirectory(folder, self.packing.words)
        digest = digest_of_search(self.packing, self.limit)
        if resume:
            self.store.check(digest)
            self.committed = self.store.levels()
            return
        r = self.result
        about = {"spec": r.spec.name, "sizes": dict(r.sizes), "faults": r.faults}
        self.store.begin(digest, about)

    def explore_on(
        self,
        spark: Any,
        progress: Progress | None = None,
        estimates: Callable[[Estimate], None] | None = None,
    ) -> Exploration:
        """Search in a Spark session; in a temporary directory if none was opened."""
        context = spark.sparkContext
        run = on_spark(spark)
        self.cores = lambda: int(context.defaultParallelism)  # executors come as they are granted
        if self._opened is not None:
            return self.explore(run, self.cores(), progress, estimates)
        if not str(context.master).startswith("local"):
            raise UsageError(
                "on a cluster the states are kept in a directory that all its machines share: "
                "name it with --checkpoint"
            )
        with TemporaryDirectory(prefix="herdproof-explore-") as made:
            self.open(made)
            return self.explore(run, self.cores(), progress, estimates)

    def explore(
        self,
        run: Run,
        parallel: int,
        progress: Progress | None = None,
        estimates: Callable[[Estimate], None] | None = None,
    ) -> Exploration:
        """Search to the end; `run` runs tasks, `parallel` of them at once."""
        began = perf_counter()
        checks = self.checks()
        self._engine = NumPyEngine(
            self.packing, checks
        )  # of which only what is looked for is asked
        search = Search(
            folder=str(self.store.folder.resolve()), run=uuid4().hex, keep_bytes=KEEP_BYTES,
            kernel=shipped(kernel_of(self.packing, checks)),
        )  # fmt: skip
        self._planner = Planner(run=run, search=search, parallel=parallel, native=False)
        if self.asked == "native":
            self._compile()
        if not self.committed:
            self._start_level()
        self.store.clear([name for level in self.committed for name in level.files])
        earlier = self.committed[-1].seconds
        while self.committed[-1].count:
            self._compile_if_large()
            for level in self._advance():
                seconds = perf_counter() - began
                self._commit(replace(level, seconds=round(earlier + seconds, 3)))
                self._tell(progress, estimates, seconds)
        self._finish()
        self.result.seconds = earlier + perf_counter() - began
        return self.result

    def _start_level(self) -> None:
        """Level 0: the initial states, of equal ones the first."""
        starts = Visited(self.packing.words)
        made = self._initial_rows()
        starts.merge(made, np.arange(len(made)))
        ranks = np.arange(len(starts), dtype=np.uint64) << np.uint64(16)
        bits = max((self.planner.parallel - 1).bit_length(), 1)
        path = self.store.fresh(STATES, 0)
        places, counts, offset = [], [], 0
        with path.open("wb") as file:
            shards = shards_of(starts.rows, bits)
            for k in range(1 << bits):
                part = with_ranks(starts.rows[shards == k], ranks[shards == k])
                file.write(np.ascontiguousarray(part).data)
                places.append((0, offset))
                counts.append([len(part)])
                offset += len(part)
        self._commit(Level(
            number=0, first=0, bits=bits, files=[path.name], places=places, counts=counts,
            orbits=self.packing.orbits(starts.rows), taken=[0] * len(self.ground.instances),
            dropped=self._before.dropped, limited=0,
        ))  # fmt: skip

    def _commit(self, level: Level) -> None:
        """From now on a level counts; what lost tasks have left of it is removed."""
        self.store.commit(level)
        self.committed.append(level)
        self.store.forget(PASSED, level.number, [])
        self.store.forget(STATES, level.number, level.files)

    # ── Engines ─────────────────────────────────────────────────────────────────────────────

    def _compile_if_large(self) -> None:
        """Go over to compiled code where there is so much to do that compiling costs less."""
        last = self.committed[-1]
        may = self.asked == "auto" and not self.planner.native and not self.result.note
        if may and last.last >= LARGE and 8 * last.count >= last.last:
            self._compile()
        self.result.engine = f"{'native' if self.planner.native else 'numpy'} on Spark"

    def _compile(self) -> None:
        """Ship compiled code, too; where there can be none, say why."""
        try:
            kernel = kernel_of(self.packing, self._engine.checks, native=True)
        except Unsupported as error:
            if self.asked == "native":
                raise UsageError(
                    f"the native engine cannot explore this: {error}; use another"
                ) from None
            self.result.note = f"searched with NumPy: {error}"
            return
        search = replace(self.planner.search, kernel=shipped(kernel))
        self._planner = replace(self.planner, search=search, native=True)

    # ── Levels ──────────────────────────────────────────────────────────────────────────────

    def _advance(self) -> Iterator[Level]:
        """Find the next level, or the next ones where they are small."""
        level = self.committed[-1]
        before = self.committed[-2].count if len(self.committed) > 1 else 1
        if is_small(level):
            wanted = Hop(level=level, before=before, native=self.planner.native)
            yield from self._run(hop, [wanted])[0]
        else:
            if self.cores is not None:
                self._planner = replace(self.planner, parallel=self.cores())
            yield self.planner.advance(level, before)

    def _run(self, function: Callable[[Search, Any], Any], wanted: Sequence[Any]) -> list[Any]:
        return self.planner.run(partial(function, self.planner.search), wanted)

    def _tell(
        self, progress: Progress | None, estimates: Callable[[Estimate], None] | None,
        seconds: float,
    ) -> None:  # fmt: skip
        level = self.committed[-1]
        if progress:
            progress(level.number, level.last, level.count)
        expected = estimated_states([c.count for c in self.committed if c.count]) or 0
        if estimates and expected:
            left = max(expected - level.first, 0) / max(level.first, 1)
            estimates(Estimate(expected, seconds * left))

    # ── The end ─────────────────────────────────────────────────────────────────────────────

    def _finish(self) -> None:
        """Turn what was noted into counts and stories."""
        r, last = self.result, self.committed[-1]
        self.firsts = dict(last.found)
        r.states, r.orbits, r.depth = last.last, last.orbits, last.number - 1
        r.dropped, r.constrained = last.dropped, last.limited
        r.taken = {a.name: 0 for a in self.ground.spec.actions}
        for instance, count in zip(self.ground.instances, last.taken, strict=True):
            r.taken[instance.action.name] += count
        r.generated = sum(r.taken.values())
        r.find_untaken = self._untaken
        r.note = "; ".join(filter(None, (r.note, self.advice())))
        self._judge()
        self.store.clear([name for level in self.committed for name in level.files])

    def fits_here(self, states: int, edges: int = 0) -> bool:
        """Tells whether the local explorer has the memory here for a space of this size."""
        needed = local_bytes(self.packing.words, states, edges if self.keeps_edges else 0)
        return needed <= min(MEMORY_BYTES, memory_here() // 2)

    def advice(self) -> str:
        """The advice where the local explorer would have done."""
        r = self.result
        if not self.fits_here(r.states, r.generated):
            return ""
        needed = local_bytes(self.packing.words, r.states, r.generated if self.keeps_edges else 0)
        return (
            f"the local explorer needs about {max(needed >> 20, 1):,} MB for this and is faster: "
            "leave --spark out"
        )

    def _untaken(self) -> list[Untaken]:
        """The branches that no step took."""
        return [b for k, b in enumerate(self.branches) if f"{BRANCH}{k}" not in self.firsts]

    # ── Recovery ────────────────────────────────────────────────────────────────────────────

    def _stuck(self, formula: Expr) -> int | None:
        """The first state from which the protocol alone cannot reach the formula, if any."""
        if self._recovery is None:
            mine = [i.by_protocol for i in self.ground.instances]
            self._recovery = GraphRecovery(self._run, self.committed, self._ranges(), mine)
        return self._recovery.stuck(formula)

    def _ranges(self) -> list[Range]:
        """All states in runs, with about as many states each."""
        most = max(FEW, min(self.committed[-1].last // self.planner.parallel + 1, STATES_A_TASK))
        found: list[Range] = []
        for level in self.committed[:-1]:
            for low, high in runs_of(level, self.planner.parallel):
                base, count = (int(level.sections[k]) for k in (low, high))
                pieces, count = level.pieces(low, high), count - base
                if found and found[-1].count + count <= most:
                    last = found.pop()
                    runs, count = [*last.runs, pieces], last.count + count
                    found.append(replace(last, runs=runs, count=count))
                else:
                    at = found[-1].position + 8 * found[-1].bytes if found else 0
                    first = level.first + base
                    found.append(Range(runs=[pieces], base=first, count=count, position=at))
        return found

    # ── Stories ─────────────────────────────────────────────────────────────────────────────

    def _entry(self, state: int) -> Entries:
        """A state's row and rank, looked up in the files of its level."""
        number = bisect_right([level.first for level in self.committed], state) - 1
        while not self.committed[number].count:
            number -= 1
        level = self.committed[number]
        section = level.section_of(state)
        rows, ranks = self.store.numbered(level.pieces(section, section + 1))
        at = state - level.first - int(level.sections[section])
        found: Entries = with_ranks(rows[at : at + 1], ranks[at : at + 1])[0]
        return found

    def _row(self, state: int) -> Words:
        return self._entry(state)[:-1]

    def _chain(self, state: int) -> list[PathLink]:
        """The states on a shortest path to one, from an initial one on."""
        chain: list[PathLink] = []
        while True:
            *row, rank = self._entry(state).tolist()
            is_initial = state < self.committed[0].count
            chain.append(PathLink(tuple(row), 0 if is_initial else rank & 0xFFFF))
            if is_initial:
                return chain[::-1]
            state = rank >> 16

    def _first_breaker(self, name: str, state: int) -> int:
        """The first instance whose step from a state breaks a promise about steps."""
        steps = self._engine.checks.steps
        formulas = {k: named[name] for k, named in steps.items() if name in named}
        return first_instance(self.packing, self._row(state), formulas)

    def _story_of_undefined(self) -> Story:
        state, undefined = self.firsts[UNDEFINED], self._engine.checks.undefined
        number = first_instance(self.packing, self._row(state), undefined, within=False)
        return self.teller.story_of_undefined(self._chain(state), self.ground.instances[number])


# ── Where the local explorer will do ────────────────────────────────────────────────────────


def local_bytes(words: int, states: int, edges: int = 0) -> int:
    """About how much memory the local explorer needs: rows, parents and a table; and edges."""
    return states * (8 * words + 6 + 16) + 10 * edges


def memory_here() -> int:
    """The bytes of this machine's memory; as many as one can count where that is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize
