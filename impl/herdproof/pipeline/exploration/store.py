"""
The levels of states that a search on Spark keeps in a directory shared by its machines.

A level's states lie in files of *entries*: a row's words, then its rank (the number of the state
that it was found from, and in the lowest 16 bits the instance that it was found by). Whoever writes
a file gives it a name that nobody else has; it counts once a level's manifest names it. So what a
task leaves that was lost, repeated or overtaken by its twin is never read, and whoever goes on with
a search goes on after its last manifest.

States are numbered as the local explorer numbers them, by rank. A shard's entries are in order of
rank and cut into *sections* at the same ranks in all shards: a section of all shards together is a
run of consecutive numbers, and a task can take a run of sections without knowing the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from herdspec.engine.columns import Words
from herdspec.language.errors import UsageError

VERSION = 1
Entries = NDArray[np.uint64]
"""Rows, each followed by its rank."""
Ranks = NDArray[np.uint64]


class Piece(NamedTuple):
    """Some entries in a file, counted from its beginning."""

    file: str
    offset: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Level:
    """
    The states of one level, and all that was counted up to it.

    `counts`: how many states each shard (first) has in each section; `places`: for each shard the
    number of its file and where in it its entries begin. The sums are of all levels up to this
    one; `taken`, `dropped`, `limited` and `found` are of what was expanded: the levels before.
    """

    number: int
    first: int
    bits: int
    files: list[str]
    places: list[tuple[int, int]]
    counts: list[list[int]]
    orbits: int
    taken: list[int]
    dropped: int
    limited: int
    found: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @cached_property
    def count(self) -> int:
        """The number of its states."""
        return int(np.sum(self.counts))

    @property
    def last(self) -> int:
        """The number after that of its last state."""
        return self.first + self.count

    @cached_property
    def sections(self) -> NDArray[np.int64]:
        """The numbers of states before each section, and in all."""
        return np.concatenate([[0], np.cumsum(np.sum(self.counts, axis=0))]).astype(np.int64)

    def pieces(self, low: int, high: int) -> list[Piece]:
        """The entries of the sections from `low` to before `high`, one piece for each shard."""
        found = []
        for (file, offset), counts in zip(self.places, self.counts, strict=True):
            count = sum(counts[low:high])
            if count:
                found.append(Piece(self.files[file], offset + sum(counts[:low]), count))
        return found

    def shard(self, number: int, bits: int) -> Piece | None:
        """Where the entries of a shard are, were there `bits` of them (with others, if fewer)."""
        own = number & ((1 << self.bits) - 1)
        assert self.bits <= bits, "shards are split, and never put together"
        file, offset = self.places[own]
        count = sum(self.counts[own])
        return Piece(self.files[file], offset, count) if count else None

    def section_of(self, state: int) -> int:
        """In which section a state of this level is."""
        return int(np.searchsorted(self.sections, state - self.first, "right")) - 1


class SearchDirectory:
    """The directory of a search whose rows have so many words."""

    def __init__(self, folder: str | Path, words: int) -> None:
        self.folder = Path(folder)
        self.words = words

    # ── Entries ─────────────────────────────────────────────────────────────────────────────

    def fresh(self, kind: str, level: int) -> Path:
        """The path of a file that nobody else writes."""
        return self.folder / f"{kind}-{level:05}-{uuid4().hex}.bin"

    def entries(self, piece: Piece) -> Entries:
        """The entries of a piece; raises `OSError` where they are not there."""
        each = self.words + 1
        path = self.folder / piece.file
        found = np.fromfile(
            path, np.uint64, count=piece.size * each, offset=8 * piece.offset * each
        )
        if len(found) != piece.size * each:
            raise OSError(f"{path} is shorter than its level says: the directory is damaged")
        return found.reshape(-1, each)

    def numbered(self, pieces: list[Piece]) -> tuple[Words, Ranks]:
        """All rows of some pieces in the order of their numbers, and their ranks."""
        found = [self.entries(piece) for piece in pieces]
        entries = np.concatenate(found) if len(found) > 1 else found[0]
        if len(found) > 1:
            entries = entries[np.argsort(entries[:, -1], kind="stable")]
        return np.ascontiguousarray(entries[:, :-1]), entries[:, -1]

    # ── Levels ──────────────────────────────────────────────────────────────────────────────

    def commit(self, level: Level) -> None:
        """Write a level's manifest: from now on the level counts."""
        self._put(f"level-{level.number:05}.json", asdict(level))

    def level(self, number: int) -> Level:
        """A level that was committed."""
        told = json.loads((self.folder / f"level-{number:05}.json").read_text("utf-8"))
        return Level(**{**told, "places": [tuple(place) for place in told["places"]]})

    def levels(self) -> list[Level]:
        """All levels that were committed, in order; raises `UsageError` where one is damaged."""
        try:
            return [self.level(k) for k in range(len(list(self.folder.glob("level-*.json"))))]
        except (OSError, TypeError, ValueError) as error:
            what = f"{self.folder} is damaged ({error}); start the search anew"
            raise UsageError(what) from None

    def forget(self, kind: str, level: int, keep: list[str]) -> None:
        """Remove the files of this kind and level but for some: what lost attempts have left."""
        for path in self.folder.glob(f"{kind}-{level:05}-*.bin"):
            if path.name not in keep:
                path.unlink(missing_ok=True)

    def clear(self, keep: list[str]) -> None:
        """Remove all files but manifests and these."""
        kept = set(keep)
        for path in [*self.folder.glob("*.bin"), *self.folder.glob("*.new")]:
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def _put(self, name: str, what: Mapping[str, Any]) -> None:
        """Write a file of JSON whole, or not at all."""
        unfinished = self.folder / f"{name}.{uuid4().hex}.new"
        unfinished.write_text(json.dumps(what, separators=(",", ":")), encoding="utf-8")
        unfinished.replace(self.folder / name)

    # ── The search that it is of ────────────────────────────────────────────────────────────

    def begin(self, digest: str, about: Mapping[str, Any]) -> None:
        """Make the directory that of a search; raises `UsageError` where it is of one already."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if (self.folder / SEARCH).exists():
                raise UsageError(
                    f"{self.folder} holds a search already; go on with it (--resume "
                    f"{self.folder}), or choose another directory"
                )
            self._put(SEARCH, {"version": VERSION, "digest": digest, **about})
        except OSError as error:
            what = f"the checkpoint {self.folder} cannot be written: {error.strerror}"
            raise UsageError(what) from None

    def check(self, digest: str) -> None:
        """Raise `UsageError` unless this directory holds just this search."""
        try:
            told = json.loads((self.folder / SEARCH).read_text("utf-8"))
            version, known = told["version"], told["digest"]
        except OSError as error:
            what = f"the checkpoint {self.folder} cannot be read: {error.strerror}"
            raise UsageError(what) from None
        except (KeyError, TypeError, ValueError):
            what = f"{self.folder} is no checkpoint of a search; start anew, with --checkpoint"
            raise UsageError(what) from None
        if version != VERSION:
            raise UsageError(
                f"{self.folder} was written by another version of herdproof (checkpoints of "
                f"version {version}, this is {VERSION}); start the search anew"
            )
        if digest != known:
            raise UsageError(
                f"{self.folder} is a checkpoint of another search ({about(told)}): the spec, its "
                "sizes, its bounds, its constraint, its symmetry, or herdproof, Python or a "
                "solver's version differ; resume with what it was begun with, or start anew"
            )


SEARCH = "search.json"
"""The file that says which search a directory is of."""


def about(told: Mapping[str, Any]) -> str:
    """Which search it was, for people."""
    sizes = ", ".join(f"{name}={n}" for name, n in dict(told.get("sizes", {})).items())
    return f"{told.get('spec', 'of an unknown spec')}, {sizes}, {told.get('faults')} faults"


def with_ranks(rows: Words, ranks: Ranks) -> Entries:
    """Rows and ranks as entries."""
    return np.column_stack([rows, ranks])
