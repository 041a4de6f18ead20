"""
The search of `herdproof explore --spark`, without Spark: tasks run here, in any order and twice.

Held against the local explorer number by number: the same states in the same order, with the same
parents and instances, and so the same counts, verdicts and stories.
"""

from __future__ import annotations

import io
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from herdproof.cli.spec.explore_spark import patient
from herdproof.pipeline.exploration import levels as explore_levels
from herdproof.pipeline.exploration import worker as explore_worker
from herdproof.pipeline.exploration.explore import SparkExplorer, local_bytes, why_failed
from herdproof.pipeline.exploration.kernel import (
    ColumnedExpander,
    ColumnedShard,
    Counted,
    Kernel,
    expander_of,
    hashes,
    kernel_of,
    received,
    shard_of,
    shards_of,
    shipped,
)
from herdproof.pipeline.exploration.levels import Run
from herdproof.pipeline.exploration.store import with_ranks
from herdspec import from_source
from herdspec.check.exploration.exploration import Exploration, Story
from herdspec.check.exploration.explore import Explorer, explore
from herdspec.engine.columns import Packing, Words
from herdspec.engine.ground import Ground
from herdspec.language.errors import UsageError
from herdspec.language.specification import Specification
from herdspec.protocols.election.flaws import FLAWS
from herdspec.protocols.election.properties import ELECTION
from properties.check.exploration.test_explore_bounds import WALKER, near
from properties.cli.files import run as command
from properties.language.random_specs import sources
from properties.published.puzzles.hanoi import HANOI
from properties.published.rings.ring_election import RING_ELECTION
from properties.specs import LOCK_SERVER, TWO_PHASE_COMMIT

NOT_ASKED = 2
ROOT = Path(__file__).parents[2]
ENGINES = ("numpy", "native")


def here(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Run tasks in this process."""
    return [function(task) for task in tasks]


def twice(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Run every task twice and in another order, as Spark may; one of both answers counts."""
    chance = random.Random(len(tasks))
    found: dict[int, Any] = {}
    for k in chance.sample(range(len(tasks)), len(tasks)):
        found[k] = chance.choice([function(tasks[k]), function(tasks[k])])
    return [found[k] for k in range(len(tasks))]


@dataclass
class Search:
    """A search of the pipeline's, and the local one of the same."""

    ours: SparkExplorer
    local: Explorer

    @property
    def results(self) -> tuple[Exploration, Exploration]:
        """What both have found."""
        return self.ours.result, self.local.result


def searched(
    folder: Path, spec: Specification, sizes: Mapping[str, int], faults: int, *,
    run: Run = here, parallel: int = 3, engine: str = "numpy", **options: Any,
) -> Search:  # fmt: skip
    """Search both ways."""
    local = Explorer(spec, sizes, faults, **options)
    local.run()
    ours = SparkExplorer(spec, sizes, faults, engine=engine, **options)
    ours.open(folder)
    ours.explore(run, parallel)
    return Search(ours, local)


def told(stories: Mapping[str, Story]) -> dict[str, tuple[list[str], list[str]]]:
    """Stories as text."""
    return {name: (story.lines, story.labels) for name, story in stories.items()}


COUNTS = (
    "states", "orbits", "generated", "depth", "dropped", "constrained", "truncated", "symmetric",
    "taken", "missing", "undecided", "branches",
)  # fmt: skip


def assert_same(ours: Exploration, local: Exploration) -> None:
    """Counts, coverage, verdicts and stories are the same."""
    assert {n: getattr(ours, n) for n in COUNTS} == {n: getattr(local, n) for n in COUNTS}
    assert told(ours.violations) == told(local.violations)
    assert told(ours.witnesses) == told(local.witnesses)
    deadlocks = [r.deadlock.lines if r.deadlock else None for r in (ours, local)]
    assert deadlocks[0] == deadlocks[1]


def assert_same_states(search: Search) -> None:
    """Every state has the number, the parent and the instance that it has locally."""
    local, ours = search.local, search.ours
    rows, ranks = [], []
    for level in ours.committed[:-1]:
        for k in range(len(level.sections) - 1):
            if pieces := level.pieces(k, k + 1):
                found = ours.store.numbered(pieces)
                rows.append(found[0])
                ranks.append(found[1])
    rank = np.concatenate(ranks)
    initial = ours.committed[0].count
    assert (np.concatenate(rows) == local.rows).all()
    engine = local._engine
    assert (rank[initial:] >> 16 == engine.parents[initial:]).all()
    assert (rank[initial:] & 0xFFFF == engine.by[initial:]).all()


# ── The same search ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("parallel", [1, 2, 5])
def test_states_have_the_numbers_of_the_local_explorer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, parallel: int
) -> None:
    """Whatever the engine and the number of tasks, states are numbered as in one process."""
    monkeypatch.setattr(explore_levels, "FEW", 20)
    monkeypatch.setattr(explore_levels, "FEW_ENTRIES", 50)

    search = searched(
        tmp_path, TWO_PHASE_COMMIT, {"Manager": 5}, 0, parallel=parallel, engine=engine,
        symmetry=False,
    )  # fmt: skip

    assert search.ours.result.states == 8_832
    assert_same(*search.results)
    assert_same_states(search)


def test_a_task_that_runs_twice_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that are repeated, and that run in another order, leave the same states."""
    monkeypatch.setattr(explore_levels, "FEW", 20)
    monkeypatch.setattr(explore_levels, "FEW_ENTRIES", 50)

    search = searched(
        tmp_path, TWO_PHASE_COMMIT, {"Manager": 4}, 0, run=twice, engine="native", symmetry=False
    )

    assert_same(*search.results)
    assert_same_states(search)


def test_what_lost_tasks_leave_is_removed(tmp_path: Path) -> None:
    """As soon as a level is committed there are the files that manifests name, and no others."""
    explorer = SparkExplorer(TWO_PHASE_COMMIT, {"Manager": 4}, 0, symmetry=False)
    explorer.open(tmp_path)

    def files_of(level: int, *_: int) -> None:
        there = {path.name for path in tmp_path.glob(f"*-{level:05}-*.bin")}
        assert there == set(explorer.committed[level].files)

    explorer.explore(twice, 3, files_of)

    named = {name for level in explorer.committed for name in level.files}
    assert {path.name for path in tmp_path.glob("*.bin")} == named
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize("engine", ENGINES)
def test_shards_are_split_as_they_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """A shard that has grown large is split, and what it had is found again in both halves."""
    monkeypatch.setattr(explore_levels, "SHARD", 500)
    monkeypatch.setattr(explore_levels, "FEW", 20)

    search = searched(tmp_path, TWO_PHASE_COMMIT, {"Manager": 5}, 0, engine=engine, symmetry=False)

    bits = [level.bits for level in search.ours.committed]
    assert bits[0] < bits[-1] >= 4
    assert_same(*search.results)
    assert_same_states(search)


@pytest.mark.parametrize("engine", ENGINES)
def test_shards_that_are_not_kept_are_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """A worker without room for shards reads them from the files of all levels."""
    monkeypatch.setattr("herdproof.pipeline.exploration.explore.KEEP_BYTES", 0)
    explore_worker.KEPT.shards.clear()

    search = searched(tmp_path, TWO_PHASE_COMMIT, {"Manager": 4}, 0, engine=engine)

    assert not explore_worker.KEPT.shards
    assert_same(*search.results)
    assert_same_states(search)


def test_the_engine_may_change_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that begins with NumPy goes on with compiled code where there is enough to do."""
    monkeypatch.setattr("herdproof.pipeline.exploration.explore.LARGE", 300)
    monkeypatch.setattr(explore_levels, "FEW", 20)

    search = searched(tmp_path, TWO_PHASE_COMMIT, {"Manager": 5}, 0, engine="auto", symmetry=False)

    assert search.ours.result.engine == "native on Spark"
    assert_same(*search.results)
    assert_same_states(search)


COUNTERS = from_source(
    """
from herdspec import *

class Counters(Spec):
    left: Nat = 0
    right: Nat = 0

    @action
    def add_left(self) -> None:
        self.left += 1

    @action
    def add_right(self) -> None:
        self.right += 1
""",
    "Counters",
)
"""Two numbers that grow: on several levels there are steps beyond the bound."""

CASES: dict[str, tuple[Specification, dict[str, int], int, dict[str, Any]]] = {
    "renamed": (TWO_PHASE_COMMIT, {"Manager": 7}, 0, {}),
    "lock": (LOCK_SERVER, {"Client": 3}, 1, {}),
    "many starts": (RING_ELECTION, {}, 0, {}),
    "a failure": (HANOI, {}, 0, {}),
    "beyond a bound": (COUNTERS, {}, 0, {"bound": 3}),
    "recoverable": (ELECTION, {"Broker": 1}, 2, {}),
    "not recoverable": (FLAWS["no_watch"].spec, {"Broker": 1}, 2, {}),
    "several words": (FLAWS["believes_lost_reply"].spec, {"Broker": 2}, 1, {"symmetry": False}),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_counts_verdicts_and_stories_are_those_of_the_local_explorer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, engine: str
) -> None:
    """Whatever the local explorer says of a spec, this says too, and tells it the same way."""
    monkeypatch.setattr(explore_levels, "FEW", 100)
    spec, sizes, faults, options = CASES[name]

    search = searched(tmp_path, spec, sizes, faults, engine=engine, **options)

    assert_same(*search.results)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=sources(), symmetry=st.sampled_from([None, False]))
def test_any_spec_is_searched_alike(text: str, symmetry: bool | None) -> None:
    """Of random specs, too, both say the same: undefined steps, bounds and deadlocks included."""
    spec = from_source(text, "Random")
    local = Explorer(spec, {"T": 2}, 1, 2, symmetry, memory_bytes=32 << 20)
    assume(starts(local))
    local.run()
    assume(not local.result.truncated)
    with TemporaryDirectory() as folder:
        ours = SparkExplorer(spec, {"T": 2}, 1, 2, symmetry, engine="numpy")
        ours.open(folder)
        ours.explore(twice, 2)

        assert_same(ours.result, local.result)
        assert_same_states(Search(ours, local))


def starts(explorer: Explorer) -> bool:
    """Whether a random spec has an initial state within its bounds."""
    try:
        return len(explorer._initial_rows()) > 0
    except UsageError:
        return False


def test_a_constraint_is_not_gone_beyond(tmp_path: Path) -> None:
    """States without the constraint are counted, and looked at, but not gone on from."""
    search = searched(tmp_path, WALKER, {}, 0, bound=9, constraint=near)

    assert search.ours.result.constrained
    assert_same(*search.results)
    assert_same_states(search)


# ── Going on with a search ──────────────────────────────────────────────────────────────────


class Killed(Exception):
    """Stands for the driver's death."""


def dies_after(jobs: int) -> Run:
    """Runs so many jobs; the next one is done, but its answers come to nobody."""
    left = [jobs]

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        found = here(function, tasks)
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return found

    return run


@pytest.mark.parametrize("jobs", [0, 1, 4, 9])
def test_a_killed_search_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """Wherever a driver dies, another goes on after the last level, and finds the same."""
    monkeypatch.setattr(explore_levels, "FEW", 20)
    sizes = {"Manager": 4}
    first = SparkExplorer(TWO_PHASE_COMMIT, sizes, 0, symmetry=False)
    first.open(tmp_path)
    with pytest.raises(Killed):
        first.explore(dies_after(jobs), 3)

    second = SparkExplorer(TWO_PHASE_COMMIT, sizes, 0, symmetry=False)
    second.open(tmp_path, resume=True)
    assert len(second.committed) == len(first.committed)
    second.explore(here, 2)

    assert_same(second.result, explore(TWO_PHASE_COMMIT, sizes, faults=0, symmetry=False))
    named = {name for level in second.committed for name in level.files}
    assert {path.name for path in tmp_path.glob("*.bin")} == named


def test_a_checkpoint_of_another_search_is_refused(tmp_path: Path) -> None:
    """Another size, or another spec, cannot go on with a search; nor can one begin in its place."""
    SparkExplorer(TWO_PHASE_COMMIT, {"Manager": 3}, 0).open(tmp_path)

    with pytest.raises(UsageError, match=r"Manager=3, 0 faults.*its sizes"):
        SparkExplorer(TWO_PHASE_COMMIT, {"Manager": 4}, 0).open(tmp_path, resume=True)
    with pytest.raises(UsageError, match="checkpoint of another search"):
        SparkExplorer(LOCK_SERVER, {"Client": 2}, 0).open(tmp_path, resume=True)
    with pytest.raises(UsageError, match="holds a search already"):
        SparkExplorer(TWO_PHASE_COMMIT, {"Manager": 3}, 0).open(tmp_path)
    SparkExplorer(TWO_PHASE_COMMIT, {"Manager": 3}, 0).open(tmp_path, resume=True)


def test_a_directory_that_holds_no_search_is_refused(tmp_path: Path) -> None:
    """`--resume` of a directory without a search, or with something else, says what it lacks."""
    explorer = SparkExplorer(TWO_PHASE_COMMIT, {"Manager": 3}, 0)

    with pytest.raises(UsageError, match="cannot be read: No such file"):
        explorer.open(tmp_path / "nothing", resume=True)
    (tmp_path / "search.json").write_text("[]")
    with pytest.raises(UsageError, match="no checkpoint of a search"):
        explorer.open(tmp_path, resume=True)
    (tmp_path / "search.json").write_text('{"version": 0, "digest": ""}')
    with pytest.raises(UsageError, match="another version"):
        explorer.open(tmp_path, resume=True)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    """A manifest that is not whole is no level."""
    ours = searched(tmp_path, TWO_PHASE_COMMIT, {"Manager": 3}, 0).ours
    (tmp_path / "level-00003.json").write_text("{")

    with pytest.raises(UsageError, match="is damaged"):
        ours.open(tmp_path, resume=True)


def test_a_file_that_is_too_short_is_noticed(tmp_path: Path) -> None:
    """States that a manifest names and that are not there are an error, and no empty level."""
    ours = searched(tmp_path, TWO_PHASE_COMMIT, {"Manager": 3}, 0).ours
    level = ours.committed[3]
    (tmp_path / level.files[0]).write_bytes(b"")

    with pytest.raises(OSError, match="shorter than its level says"):
        ours.store.numbered(level.pieces(0, len(level.sections) - 1))


# ── What is shipped ─────────────────────────────────────────────────────────────────────────


class Strange(pickle.Unpickler):
    """Refuses whatever a worker may not have: the user's own modules, this test's among them."""

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle names."""
        ours = ("herdspec.engine", "herdspec.language", "herdproof.pipeline", "builtins")
        assert module.startswith(ours), f"{module}.{name} is not on a worker"
        return super().find_class(module, name)


@pytest.mark.parametrize("name", ["renamed", "lock", "recoverable"])
def test_workers_need_not_know_the_specs_classes(name: str) -> None:
    """A kernel is plain data: it arrives where the user's spec is not installed."""
    spec, *_ = CASES[name]
    ground = Ground(spec, dict.fromkeys(spec.sorts, 2), 2, 1)
    explorer = SparkExplorer(spec, ground.sizes, 1)

    data = shipped(kernel_of(explorer.packing, explorer.checks(), native=True))
    arrived = Strange(io.BytesIO(data)).load()

    assert arrived.checks == explorer.checks()
    assert len(data) < 1 << 20


def kernels(spec: Specification, sizes: Mapping[str, int], symmetry: bool | None = None) -> Kernel:
    """A spec's kernel, with compiled code."""
    explorer = SparkExplorer(spec, sizes, 1, symmetry=symmetry)
    return received(shipped(kernel_of(explorer.packing, explorer.checks(), native=True)))


def test_rows_are_hashed_alike_by_both_engines() -> None:
    """The native engine scatters rows to the shards that NumPy names."""
    kernel = kernels(ELECTION, {"Broker": 2})
    rows = Explorer(ELECTION, {"Broker": 2}, 1)._initial_rows()
    bits = 3
    counted = Counted(np.zeros(kernel.instances, np.int64))

    parts = next(expander_of(kernel, native=True).expand(rows, 0, bits, [], counted))

    assert sum(map(len, parts)) > 1
    for k, part in enumerate(parts):
        assert (shards_of(np.ascontiguousarray(part[:, :-1]), bits) == k).all()
    assert len(set(hashes(rows).tolist())) == len(rows)


@pytest.mark.parametrize("symmetry", [None, False])
def test_a_native_shard_knows_what_the_other_knows(symmetry: bool | None) -> None:
    """Rows in any order, again and again, of one word or of several: both find the same new."""
    kernel = kernels(TWO_PHASE_COMMIT, {"Manager": 5}, symmetry)
    words = kernel.packing.words
    chance = np.random.default_rng(1)

    def some(count: int) -> Words:
        rows: Words = chance.integers(0, 1 << 18, (count, 1), np.uint64)
        return rows << (np.arange(words, dtype=np.uint64) * np.uint64(3))

    native, other = shard_of(kernel, native=True), ColumnedShard(kernel)
    load = np.unique(some(5_000), axis=0)
    for shard in (native, other):
        shard.load(load)
    for step in range(3):
        rows = some(300_000)
        ranks = np.arange(len(rows), dtype=np.uint64) + np.uint64(step << 40)
        entries = with_ranks(rows, ranks)
        found = [
            np.concatenate(list(shard.settle(iter([entries]), len(entries))))
            for shard in (native, other)
        ]
        assert len(found[0]) > 1_000
        assert (found[0] == found[1]).all()
        assert not np.isin(found[0][:, 0], load[:, 0]).any()


# ── The command ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--spark", "nowhere"], "--spark nowhere: say local"),
        (["--spark", "spark://127.0.0.1:1"], "no Spark master answers at spark://127.0.0.1:1"),
        (["--spark", "local", "--save", "x"], "--save is of the local explorer"),
        (["--spark", "local", "--why"], "--why is of the local explorer"),
        (["--spark", "local", "--memory-gb", "1"], "--memory-gb is of the local explorer"),
        (["--checkpoint", "x"], "--checkpoint goes with --spark"),
        (["--spark", "local", "--checkpoint", "x", "--resume", "x"], "leave --checkpoint out"),
        (["--spark", "local", "--resume", "x"], "the checkpoint x cannot be read"),
        (["--spark", "local", "--engine", "x"], "there is no engine 'x'"),
    ],
)
def test_what_cannot_be_asked_of_spark_is_said(options: list[str], said: str) -> None:
    """What does not go together, or is not there, is said in a sentence before Spark is started."""
    result = command("explore", "election-contract", *options)

    assert result.exit_code == NOT_ASKED
    assert said in result.stderr


def test_a_missing_java_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a Java there is no Spark: the sentence says what to install."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    result = command("explore", "election-contract", "--spark", "local[1]")

    assert result.exit_code == NOT_ASKED
    assert "java" in result.stderr.lower()


def without_llvm(packing: Packing) -> str:
    """As if llvmlite were missing."""
    assert packing.words
    return "llvmlite is not installed"


def test_a_missing_compiler_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where native code cannot be had, NumPy searches and says why; asked for, it is refused."""
    monkeypatch.setattr("herdproof.pipeline.exploration.explore.LARGE", 10)
    monkeypatch.setattr(explore_levels, "FEW", 20)
    monkeypatch.setattr("herdproof.pipeline.exploration.kernel.why_not", without_llvm)

    case = (TWO_PHASE_COMMIT, {"Manager": 4}, 0)
    ours = searched(tmp_path / "auto", *case, engine="auto", symmetry=False).ours

    assert ours.result.engine == "numpy on Spark"
    assert ours.result.note.startswith("searched with NumPy: llvmlite is not installed; ")
    with pytest.raises(UsageError, match="cannot explore this: llvmlite is not installed"):
        searched(tmp_path / "native", *case, engine="native")


@pytest.mark.parametrize("native", [True, False])
def test_a_worker_without_a_compiler_uses_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: bool
) -> None:
    """A worker may lack llvmlite, though the driver has it: the search is the same."""
    monkeypatch.setattr("herdproof.pipeline.exploration.kernel._has_compiler", lambda: native)
    kernel = kernels(LOCK_SERVER, {"Client": 2})

    assert isinstance(expander_of(kernel, native=True), ColumnedExpander) is not native
    search = searched(tmp_path, LOCK_SERVER, {"Client": 3}, 1, engine="native")

    assert_same_states(search)


def test_the_module_is_the_command() -> None:
    """The module, started as spark-submit does it, takes the same options."""
    module = [sys.executable, "-m", "herdproof.cli.spec.explore_spark", "election-contract"]

    done = subprocess.run(
        [*module, "--resume", "nothing"], capture_output=True, text=True, check=False
    )

    assert done.returncode == NOT_ASKED
    assert "the checkpoint nothing cannot be read" in done.stderr


def test_the_benchmark_says_what_it_does() -> None:
    """`benchmarks/explore_spark --help` runs, and names its options."""
    command = [sys.executable, str(ROOT / "benchmarks" / "explore_spark"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    assert all(option in done.stdout for option in ("--quick", "--json"))


def test_a_failed_task_is_said_in_a_line() -> None:
    """Of what Spark says of a failure, the line of the worker is shown."""
    long = "org.apache.spark.SparkException: Job aborted\nTraceback:\nOSError: no space\n\n\tat org"

    assert why_failed(long).endswith("OSError: no space")
    assert why_failed("").endswith("it did not say why")


def test_a_small_space_is_for_the_local_explorer(tmp_path: Path) -> None:
    """The result says so where one machine would have done, and nothing where it would not."""
    search = searched(tmp_path, LOCK_SERVER, {"Client": 2}, 1)

    assert "leave --spark out" in search.ours.result.note
    search.ours.result.states = 10**11
    assert not search.ours.advice()
    assert local_bytes(1, 10_340_352) / 10_340_352 == 30  # as measured: docs/performance.md


def test_a_local_master_is_patient() -> None:
    """On one machine Spark tries a task once, unless it is told otherwise."""
    assert patient("local[*]") == "local[*, 4]"
    assert patient("yarn") == "yarn"
