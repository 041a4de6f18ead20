"""
One measured exploration, in a process of its own: what `benchmarks/explore` starts again and again.

    python benchmarks/measure.py two_phase_commit 8            # managers
    python benchmarks/measure.py two_phase_commit 13 --symmetry
    python benchmarks/measure.py group 4 3 1                   # members, partitions, faults

It prints one line of JSON. `seconds` are from the call of `explore()` to its result, so that every
compilation is in them; `before_bytes` is the resident memory just before that call, `peak_bytes`
the largest of the whole process. With `--compiled` something small is compiled and explored before:
then the growth of memory is what the states cost, without the compiler. Known counts are checked: a
wrong search has no speed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # this file is run as a script, and imports its neighbours

from benchmarks.specs import GENERATIONS, GROUP  # noqa: E402
from herdspec.check.exploration.explore import explore  # noqa: E402
from herdspec.language.specification import Specification  # noqa: E402
from properties.specs import TWO_PHASE_COMMIT  # noqa: E402

STATES = {
    ("two_phase_commit", 3): 288,
    ("two_phase_commit", 5): 8_832,
    ("two_phase_commit", 7): 296_448,
    ("two_phase_commit", 8): 1_745_408,
    ("two_phase_commit", 9): 10_340_352,
    ("group", 4, 3, 0): 975_538,
    ("group", 4, 3, 1): 12_759_049,
}
"""How many states there are, by what is explored; those of two-phase commit are published."""

SMALLEST = {"two_phase_commit": [3], "group": [4, 3, 0]}
"""What is explored first where the compiler's own memory is to be left out."""

Case = tuple[Specification, Mapping[str, int], int]
"""A spec, its sizes, the budget of faults."""


def chosen(name: str, numbers: list[int]) -> Case:
    """What is explored under this name; ValueError for a name or numbers that mean nothing."""
    match name, numbers:
        case "two_phase_commit", [managers]:
            return TWO_PHASE_COMMIT, {"Manager": managers}, 0
        case "group", [members, partitions, faults]:
            return GROUP, {"Member": members, "Partition": partitions}, faults
    raise ValueError(f"there is no benchmark {name} {numbers}; see the head of {__file__}")


def memory(which: str) -> int:
    """VmRSS (now) or VmHWM (the largest so far) in bytes; 0 where there is no /proc."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith(f"{which}:")]
    return int(found[0]) * 1024


def measured(name: str, numbers: list[int], symmetry: bool, **options: Any) -> dict[str, Any]:
    """Explore once; RuntimeError where the states are not as many as they are known to be."""
    spec, sizes, faults = chosen(name, numbers)
    before, begun = memory("VmRSS"), perf_counter()
    found = explore(spec, sizes, faults=faults, bound=GENERATIONS, symmetry=symmetry, **options)
    seconds = perf_counter() - begun
    wanted = STATES.get((name, *numbers), found.orbits)
    if found.orbits != wanted or not found.complete or found.violations:
        said = f"{found.orbits:,} states instead of {wanted:,}, complete: {found.complete}"
        raise RuntimeError(f"{name} {numbers}: {said}, broken: {list(found.violations)}")
    return {
        "states": found.states, "orbits": found.orbits, "generated": found.generated,
        "depth": found.depth, "seconds": seconds, "before_bytes": before,
        "peak_bytes": memory("VmHWM"), "engine": found.engine, "threads": found.threads,
        "note": found.note,
    }  # fmt: skip


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("name", help="two_phase_commit or group")
    parser.add_argument("numbers", nargs="+", type=int, help="its sizes")
    parser.add_argument("--symmetry", action="store_true", help="take states up to renaming")
    parser.add_argument("--engine", help="numpy or native (otherwise as explore() chooses)")
    parser.add_argument(
        "--compiled", action="store_true", help="load the compiler first: memory without it"
    )
    parser.add_argument("--threads", type=int, help="how many (otherwise as explore() chooses)")
    args = parser.parse_args()
    chosen = {"engine": args.engine, "threads": args.threads}
    options = {name: value for name, value in chosen.items() if value is not None}
    if args.compiled:
        measured(args.name, SMALLEST[args.name], args.symmetry, engine="native")
    print(json.dumps(measured(args.name, args.numbers, args.symmetry, **options)))


if __name__ == "__main__":
    main()
