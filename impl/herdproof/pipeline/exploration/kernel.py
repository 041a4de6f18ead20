"""
The searching part on Spark's workers: a ground spec as plain data, and two engines for it.

A worker gets formulas over slots and, for the native engine, the text of its code, which it
compiles once; never the spec's class, which may come from a file that only the user's machine has.

An *expander* makes the successors of some states, sorted by the shard that each belongs to. A
*shard* is a part of the visited set: it tells which of the successors are new. Both engines give
the same entries in the same order (`properties/pipeline/test_pipeline_explore.py`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from herdproof.pipeline.exploration.store import Entries, Ranks, with_ranks
from herdspec.check.exploration.numpy_engine import CHUNK, NumPyEngine
from herdspec.check.exploration.visited import Visited
from herdspec.engine.columns import Columns, Packing, Words
from herdspec.engine.ground import Ground, GroundAction
from herdspec.engine.native import Unsupported, why_not
from herdspec.engine.native_emit import Checks
from herdspec.engine.native_runtime import FACTORS
from herdspec.language import graph as g
from herdspec.language.specification import Action
from herdspec.language.surface import ActionKind

if TYPE_CHECKING:
    from herdproof.pipeline.exploration.native import NativeCode

NOBODY = Action("", ActionKind.STEP, False, (), g.TRUE, {}, "", "", 0)
"""Stands for the action of an instance where nobody asks for it."""


@dataclass(frozen=True)
class PlainSlot:
    """A slot of a state, as far as the engines ask for it."""

    values: int
    is_bounded: bool


@dataclass(frozen=True)
class PlainGround:
    """A ground spec, as far as the engines ask for it."""

    slots: Mapping[Any, PlainSlot]
    instances: tuple[GroundAction, ...]


@dataclass(frozen=True)
class Kernel:
    """All that a worker needs to know of a search."""

    packing: Packing
    checks: Checks
    native: NativeCode | None = None
    """The code that workers compile; None while NumPy searches."""

    @property
    def instances(self) -> int:
        """The number of instances."""
        return len(self.packing.ground.instances)


def kernel_of(packing: Packing, checks: Checks, native: bool = False) -> Kernel:
    """
    The kernel of a search, made of plain data alone; `native` with code to be compiled.

    Raises `Unsupported` where there can be none.
    """
    ground = packing.ground
    slots = {key: PlainSlot(s.values, s.is_bounded) for key, s in ground.slots.items()}
    instances = tuple(replace(i, action=NOBODY, arguments=()) for i in ground.instances)
    plain = copy(packing)
    plain.ground = cast("Ground", PlainGround(slots, instances))
    return Kernel(plain, checks, _code(packing, checks) if native else None)


def _code(packing: Packing, checks: Checks) -> NativeCode:
    if reason := why_not(packing):
        raise Unsupported(reason)
    from herdproof.pipeline.exploration.native import code_of

    return code_of(packing, checks)


def shipped(kernel: Kernel) -> bytes:
    """A kernel as bytes, for `received`."""
    return pickle.dumps(kernel, protocol=pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=2)
def received(data: bytes) -> Kernel:
    """A kernel that was shipped; a worker reads each only once."""
    kernel: Kernel = pickle.loads(data)
    return kernel


# ── Shards ──────────────────────────────────────────────────────────────────────────────────


def hashes(rows: Words) -> NDArray[np.uint64]:
    """Each row's hash, just as the native engine has it (`Runtime.hashed`)."""
    first, second = (np.uint64(f % (1 << 64)) for f in FACTORS[:2])
    found = np.zeros(len(rows), np.uint64)
    for k in range(rows.shape[1]):
        found = (found ^ rows[:, k]) * first
        found ^= found >> np.uint64(32)
    found = found * second
    return found ^ (found >> np.uint64(29))


def shards_of(rows: Words, bits: int) -> NDArray[np.uint64]:
    """To which of 2^bits shards each row belongs."""
    return hashes(rows) & np.uint64((1 << bits) - 1)


@dataclass
class Counted:
    """The counts of an expander beside the successors; `found` by the states' numbers."""

    taken: NDArray[np.int64]
    dropped: int = 0
    limited: int = 0
    found: dict[str, int] = field(default_factory=dict)


class Expander(Protocol):
    """Makes successors."""

    def expand(
        self, rows: Words, base: int, bits: int, known: Sequence[str], counted: Counted
    ) -> Iterator[list[Entries]]:
        """
        The successors of these states, the first of which has the number `base`.

        Yields now and then a list of entries by shard; of one shard they come in order of rank.
        What is `known` is not looked for.
        """


class Shard(Protocol):
    """A part of the visited set."""

    @property
    def nbytes(self) -> int:
        """The memory that it holds."""

    def load(self, rows: Words) -> None:
        """Take these states, none of which it has."""

    def settle(self, parts: Iterator[Entries], most: int) -> Iterator[Entries]:
        """Take what comes in order of rank, `most` entries in all; yields what is new."""


class ColumnedExpander:
    """Makes successors by columns of NumPy."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def expand(
        self, rows: Words, base: int, bits: int, known: Sequence[str], counted: Counted
    ) -> Iterator[list[Entries]]:
        """See `Expander`."""
        packing = self.kernel.packing
        engine = NumPyEngine(packing, self.kernel.checks)
        engine.firsts = dict.fromkeys(known, -1)
        for low in range(0, len(rows), CHUNK):
            columns = Columns(packing, rows[low : low + CHUNK])
            engine.look(columns, base + low)
            made, ranks = [np.zeros((0, packing.words), np.uint64)], [np.zeros(0, np.uint64)]
            for source, number, successors in engine.successors(columns, base + low):
                made.append(successors)
                ranks.append(((source + base + low) << 16 | number).astype(np.uint64))
            yield _by_shard(np.concatenate(made), np.concatenate(ranks), bits)
        counted.taken += engine.taken
        counted.dropped += engine.dropped
        counted.limited += engine.limited
        counted.found |= {name: k for name, k in engine.firsts.items() if name not in known}


def _by_shard(rows: Words, ranks: Ranks, bits: int) -> list[Entries]:
    """Rows by shard, each once and in order of rank."""
    order = np.argsort(ranks)
    entries = with_ranks(rows[order], ranks[order])
    shards = shards_of(entries[:, :-1], bits)
    return [entries[shards == k] for k in range(1 << bits)]


class ColumnedShard:
    """A part of the visited set as NumPy has it."""

    def __init__(self, kernel: Kernel) -> None:
        self.visited = Visited(kernel.packing.words)

    @property
    def nbytes(self) -> int:
        """See `Shard`."""
        return self.visited.nbytes

    def load(self, rows: Words) -> None:
        """See `Shard`."""
        self.visited.merge(rows, np.arange(len(rows)))

    def settle(self, parts: Iterator[Entries], most: int) -> Iterator[Entries]:  # noqa: ARG002
        """See `Shard`."""
        for entries in parts:
            before = len(self.visited)
            merged = self.visited.merge(
                np.ascontiguousarray(entries[:, :-1]), entries[:, -1].astype(np.int64)
            )
            yield with_ranks(self.visited.rows[before:], merged.ranks.astype(np.uint64))


def expander_of(kernel: Kernel, native: bool) -> Expander:
    """The expander of a worker."""
    if native and kernel.native is not None and _has_compiler():
        from herdproof.pipeline.exploration.native import NativeExpander

        return NativeExpander(kernel)
    return ColumnedExpander(kernel)


def shard_of(kernel: Kernel, native: bool) -> Shard:
    """An empty shard on a worker."""
    if native and kernel.native is not None and _has_compiler():
        from herdproof.pipeline.exploration.native import NativeShard

        return NativeShard(kernel)
    return ColumnedShard(kernel)


@lru_cache(maxsize=1)
def _has_compiler() -> bool:
    """Tells whether this worker can compile: llvmlite may be only on the user's machine."""
    try:
        import llvmlite  # noqa: F401
    except ImportError:
        return False
    return True
