"""`herdproof explore SPEC --spark MASTER`: the same search, where one machine's memory ends."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.report.render import check_writable
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.cli.spec.explore import ExploreOptions, Shown
    from herdproof.pipeline.exploration.explore import SparkExplorer
    from herdproof.report.render import Output
    from herdspec.check.exploration.explore import Estimate, Exploration
    from herdspec.language.specification import Specification
    from herdspec.language.surface import Property

SparkOption = Annotated[
    str | None,
    typer.Option("--spark", metavar="MASTER", help="Search on Spark: local[2], spark://HOST:7077."),
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", metavar="DIR", help="--spark: keep each level there (all machines see it)."
    ),
]
NOT_ON_SPARK = "not checked on Spark; without --spark it is"
"""The note on promises of liveness."""
TRIES = 4
"""The number of tries of a task on this machine; on clusters Spark has a setting for it."""


def check_options(asked: ExploreOptions, watch: bool) -> None:
    """Raise `UsageError` where options do not go together, or name what cannot be written."""
    check_writable({"--graph": asked.graph, "--save": asked.save})
    if asked.graph is not None:
        from herdspec.check.exploration.graph_export import format_of

        format_of(asked.graph)
    if asked.spark is None:
        if asked.checkpoint is not None:
            raise UsageError("--checkpoint goes with --spark; without it, take --save FILE")
        return
    local = {
        "--save": asked.save is not None, "--threads": asked.threads is not None,
        "--why": asked.why, "--watch": watch, "--memory-gb": asked.memory_bytes != 8 << 30,
    }  # fmt: skip
    for name, is_given in local.items():
        if is_given:
            instead = ": take --checkpoint DIR" if name == "--save" else ""
            raise UsageError(
                f"{name} is of the local explorer, and does not go with --spark{instead}"
            )
    if asked.checkpoint is not None and asked.resume is not None:
        raise UsageError(
            "--resume goes on in its own directory: leave --checkpoint out, or begin anew with it"
        )


def search_on_spark(
    asked: ExploreOptions, out: Output, spec: Specification, sizes: Mapping[str, int],
    limit: Property | None, shown: Shown,
) -> Exploration:  # fmt: skip
    """Explore in a Spark session of its own."""
    from herdproof.pipeline.exploration.explore import SparkExplorer

    explorer = SparkExplorer(
        spec, sizes, asked.faults, asked.bound, asked.symmetry, engine=asked.engine,
        constraint=limit,
    )  # fmt: skip
    explorer.result.within = asked.within
    kept = asked.checkpoint or asked.resume
    try:
        with session(asked.spark or "local[*]") as begin:
            if kept:  # what is wrong with it is said before Spark is started
                explorer.open(kept, resume=asked.resume is not None)
            return explorer.explore_on(begin(), shown.level, partial(guessed, explorer, shown))
    except KeyboardInterrupt:
        if kept:
            out.errors.print(f"put aside: go on with --resume {kept}", markup=False)
        raise


def guessed(explorer: SparkExplorer, shown: Shown, guess: Estimate) -> None:
    """Show what a search may come to, and whether it is one for Spark."""
    shown.estimate(guess)
    if explorer.fits_here(guess.states):
        words = f"{shown.words}; about {guess.states:,} in all: the local explorer would do"
        shown.tell(words, None)


@contextmanager
def session(told: str) -> Iterator[Callable[[], Any]]:
    """Yield a function that begins a session at this master; it ends with the context."""
    from herdproof.pipeline.spark.master import master_of
    from herdproof.pipeline.spark.session import spark_job

    master = master_of(told)
    with ExitStack() as begun:
        job = spark_job("explore", None if master is None else patient(master))
        yield partial(begun.enter_context, job)


def patient(master: str) -> str:
    """
    A local master that tries a lost task again, as clusters do.

    >>> patient("local[2]"), patient("local[2, 1]"), patient("spark://here:7077")
    ('local[2, 4]', 'local[2, 1]', 'spark://here:7077')
    """
    if master == "local":
        return f"local[1, {TRIES}]"
    return re.sub(r"^local\[(\d+|\*)\]$", rf"local[\1, {TRIES}]", master)


def main() -> None:
    """`herdproof explore … --spark`, as `spark-submit` starts a copy of this file."""
    from herdproof.cli import app

    given = sys.argv[1:]
    if not any(word.partition("=")[0] == "--spark" for word in given):
        given += ["--spark", "local[*]"]  # under spark-submit its own word counts
    app(["explore", *given])


if __name__ == "__main__":
    main()  # what is pickled for workers comes from the module that the command imports
