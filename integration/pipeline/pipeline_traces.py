"""Traces of runs of the simulated world, as files; and the tables that an audit has written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from herdproof.pipeline.audit.judge import judge
from herdproof.pipeline.audit.protocols import read_line
from herdproof.pipeline.spark.tables import TABLES
from herdproof.protocols.central_coordinator.simulated.traced import traced

SECOND = 1_000_000_000

Tables = Mapping[str, list[str]]
"""By table, its rows as sorted lines of JSON: two audits can be compared."""


@cache
def run_lines(seed: int) -> tuple[str, ...]:
    """The lines of a run, in the order of time; its name is the seed."""
    return tuple(line.written() for line in sorted(traced(seed).lines, key=lambda x: x.time_ns))


def write_by_node(folder: Path, seed: int) -> dict[str, Path]:
    """A run's lines, each process's in a file of its own, as they really come."""
    folder.mkdir(exist_ok=True)
    of: dict[str, list[str]] = {}
    for line in run_lines(seed):
        of.setdefault(json.loads(line)["node"], []).append(line)
    files = {node: folder / f"run{seed}-{node}.ndjson" for node in of}
    for node, lines in of.items():
        files[node].write_text("".join(f"{line}\n" for line in lines))
    return files


def write_in_slices(folder: Path, lines: Iterable[str], slices: int) -> list[Path]:
    """Lines in the order of time, in so many files that come one after the other."""
    folder.mkdir(exist_ok=True)
    ordered = sorted(lines, key=lambda line: json.loads(line)["time_ns"])
    files = []
    for number in range(slices):
        own = ordered[number * len(ordered) // slices : (number + 1) * len(ordered) // slices]
        files.append(folder / f"slice{number:03}.ndjson")
        files[-1].write_text("".join(f"{line}\n" for line in own))
        os.utime(files[-1], (1_700_000_000 + number,) * 2)
    return files


def tables_in(out: Path) -> Tables:
    """What an audit has written."""
    return {name: _canonical(pq.read_table(out / name).to_pylist()) for name in TABLES}


def judged_alone(seeds: Iterable[int]) -> Tables:
    """What the pure judge says of the same runs, group by group."""
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in TABLES}
    for seed in seeds:
        lines = [read_line(text, "") for text in run_lines(seed)]
        for group in sorted({line.group for line in lines} - {""}):
            own = [line for line in lines if line.group in ("", group)]
            rows = judge(own[0].protocol, own[0].run, group, own)
            for name, some in rows.items():
                found[name] += TABLES[name].filled(some).to_pylist()
    return {name: _canonical(rows) for name, rows in found.items()}


def _canonical(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)
