"""
A search put aside: its states and counts in a file, to go on from another day.

The file is NumPy's own (`.npz`, nothing is executed when it is read). It carries a digest of the
spec, its sizes and bounds and how states are packed, and of the checkers, so that a search cannot
be continued as another one, nor by others: what they found would be believed unseen.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from herdspec.check.digest import digest_of, engine
from herdspec.engine.columns import Packing, Words
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr

VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """All that a search has found so far; `expanded` states have been gone on from."""

    rows: Words
    parents: NDArray[np.uint32]
    by: NDArray[np.uint16]
    taken: NDArray[np.int64]
    levels: list[int]
    """The number of states at the end of each level."""
    expanded: int
    dropped: int
    limited: int
    firsts: dict[str, int]


def digest_of_search(packing: Packing, constraint: Expr) -> str:
    """The digest that must agree for a search to be continued."""
    ground = packing.ground
    places = [packing.places.items(), packing.one_hot.items()]
    layout = [str(sorted((str(k), str(p)) for k, p in of)) for of in places]
    bounds = [ground.bound, ground.faults, packing.blocks]
    sizes = sorted(ground.sizes.items())
    return digest_of(ground.spec, sizes, bounds, layout, constraint, engine())


def write(path: str | os.PathLike[str], digest: str, found: Checkpoint) -> None:
    """Write a checkpoint; an old one is replaced only when the new one is complete."""
    target = Path(path)
    unfinished = target.with_name(f"{target.name}.new")
    told = {
        "version": VERSION, "digest": digest, "levels": found.levels, "expanded": found.expanded,
        "dropped": found.dropped, "limited": found.limited, "firsts": found.firsts,
    }  # fmt: skip
    try:
        with unfinished.open("wb") as file:
            np.savez(
                file, rows=found.rows, parents=found.parents, by=found.by, taken=found.taken,
                told=np.array(json.dumps(told)),
            )  # fmt: skip
        unfinished.replace(target)
    except OSError as error:
        raise UsageError(f"the checkpoint {target} cannot be written: {error.strerror}") from None


def read(path: str | os.PathLike[str], digest: str) -> Checkpoint:
    """Read a checkpoint; raises `UsageError` for one of another search, and for no checkpoint."""
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            told = json.loads(str(file["told"]))
            _check(path, told, digest)
            return Checkpoint(
                file["rows"], file["parents"], file["by"], file["taken"], told["levels"],
                told["expanded"], told["dropped"], told["limited"], told["firsts"],
            )  # fmt: skip
    except OSError as error:
        what = error.strerror or "it is no checkpoint"
        raise UsageError(f"the checkpoint {path} cannot be read: {what}") from None
    except (EOFError, KeyError, ValueError, zipfile.BadZipFile):
        advice = "start the search anew, with save"
        raise UsageError(f"{path} is no complete checkpoint of a search; {advice}") from None


def _check(path: str | os.PathLike[str], told: dict[str, object], digest: str) -> None:
    if told["version"] != VERSION:
        raise UsageError(
            f"{path} was written by another version of herdproof (checkpoints of version "
            f"{told['version']}, this is {VERSION}); start the search anew"
        )
    if told["digest"] != digest:
        raise UsageError(
            f"{path} is a checkpoint of another search: the spec, its sizes, its bounds, its "
            "constraint, its symmetry, or herdproof, Python or a solver's version differ; resume "
            "with what it was begun with, or start anew"
        )
