"""
The native engine on a worker: states expanded into shards, and shards that know what they have.

The code is that of the local engine with two threads (`herdspec.engine.native_threads`), cut where
it fits two kinds of tasks: what is *produced* is scattered over many shards instead of two, and
what is *consumed* comes from files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from herdproof.pipeline.exploration.kernel import Counted, Kernel
from herdproof.pipeline.exploration.store import Entries, with_ranks
from herdspec.engine.columns import Packing, Words
from herdspec.engine.native import (
    FULL,
    SMALL_TABLE,
    Context,
    Functions,
    Native,
    functions,
    reserve,
)
from herdspec.engine.native_emit import Checks
from herdspec.engine.native_runtime import BLOCK, At
from herdspec.engine.native_text import Code
from herdspec.engine.native_threads import ThreadedRuntime

ROUND = 1 << 18
"""Successors that are produced before they are written out, about."""
PART = 1 << 18
"""Entries that a shard looks up before its table may grow."""

OUT, COUNTS, STRIDE, SPLIT, BASE = At.OUT_EVEN, At.OUT_ODD, At.EVEN, At.SHARDS, At.SOURCE
"""Where entries go, how many each shard got, a shard's room, a mask of hashes, the first's rank."""


@dataclass(frozen=True)
class ScatteringRuntime(ThreadedRuntime):
    """Writes the functions of both kinds of tasks."""

    def functions(self) -> list[Code]:
        """All functions that are wanted here."""
        return [
            self.note(), self.expand(), self.sift(), self.rebuild(), self.scatter(),
            self.produce(), self.consume(),
        ]  # fmt: skip

    def scatter(self) -> Code:
        """Sort the successors that are left by shard."""
        code = Code("scatter", "context", "first", "left")
        buffer, meta, kept = self.context(code, At.BUFFER, At.META, At.KEPT)
        out, counts, stride, mask, base = self.context(code, OUT, COUNTS, STRIDE, SPLIT, BASE)
        above = code.op("add", base, code.op("shl", "%first", 16))
        with code.loop(0, "%left") as k:
            entry = code.load(kept, k, 32)
            words = self.row(code, buffer, entry)
            shard = code.op("and", self.hashed(code, words), mask)
            at = code.load(counts, shard)
            where = code.op("add", code.op("mul", shard, stride), at)
            place = code.op("mul", where, self.words + 1)
            rank = code.op("add", above, code.load(meta, entry, 32))
            for j, word in enumerate([*words, rank]):
                code.store(out, code.op("add", place, j), word)
            code.store(counts, shard, code.op("add", at, 1))
        code.give(0)
        return code

    def produce(self) -> Code:
        """Expand the states from `first` on, as long as there is room; returns where to go on."""
        code = Code("produce", "context", "first", "last", "room")
        state, made = code.variable("%first"), code.variable(0)
        with code.repeat() as done:
            present = code.get(state)
            code.leave(done, code.op("icmp sge", present, "%last"))
            code.leave(done, code.op("icmp sgt", code.get(made), "%room"))
            code.set(state, code.call("expand", "%context", present, "%last"))
            left = code.call("sift", "%context")
            code.call("scatter", "%context", present, left)
            code.increase(made, left)
        code.give(code.get(state))
        return code


@dataclass(frozen=True)
class NativeCode:
    """The text of a module, the functions in it with their parameters, and what they assume."""

    text: str
    functions: tuple[tuple[str, tuple[str, ...]], ...]
    keys: bool
    filter_slots: int

    def compiled(self) -> Functions:
        """The functions, to be called; compiled once in a process."""
        return functions([Code(name, *given) for name, given in self.functions], self.text)


def code_of(packing: Packing, checks: Checks) -> NativeCode:
    """The code for a search; raises `Unsupported` where a formula cannot be compiled."""
    keys = packing.words == 1 and packing.bits < 64
    runtime = ScatteringRuntime(packing, checks, keys)
    codes = runtime.functions()
    return NativeCode(
        runtime.text(codes), tuple((c.name, tuple(c.parameters)) for c in codes),
        runtime.keys, runtime.filter_slots,
    )  # fmt: skip


class NativeExpander:
    """Makes successors by compiled code."""

    def __init__(self, kernel: Kernel) -> None:
        assert kernel.native is not None, "there is code"
        self.kernel, self.code = kernel, kernel.native
        self._calls = self.code.compiled()

    def expand(
        self, rows: Words, base: int, bits: int, known: Sequence[str], counted: Counted
    ) -> Iterator[list[Entries]]:
        """See `Expander`."""
        context = self._context(rows, known)
        each, shards = self.kernel.packing.words + 1, 1 << bits
        block = BLOCK + self.kernel.instances + 1
        stride = ROUND + 2 * block
        out = context.hold(OUT, reserve(shards * stride * each, np.uint64))
        counts = context.hold(COUNTS, np.zeros(shards, np.int64))
        context[STRIDE], context[SPLIT], context[BASE] = stride, shards - 1, base << 16
        first = 0
        while first < len(rows):
            counts[:] = 0
            first = self._calls["produce"](context.address, first, len(rows), ROUND)
            found = out.reshape(shards, stride, each)
            yield [found[k, : counts[k]] for k in range(shards)]
        counted.taken += context.array(At.TAKEN)[: len(counted.taken)]
        counted.dropped += context[At.DROPPED]
        counted.limited += context[At.LIMITED]
        names = enumerate(self.kernel.checks.names)
        wanted, firsts = context.array(At.WANTED), context.array(At.FIRSTS)
        counted.found |= {
            name: base + int(firsts[k])
            for k, name in names
            if name not in known and not int(wanted[k // 64]) >> k % 64 & 1
        }

    def _context(self, rows: Words, known: Sequence[str]) -> Context:
        """The context that the functions work on: these states, and nothing of earlier ones."""
        words, instances = self.kernel.packing.words, self.kernel.instances
        size = BLOCK + instances + 1
        context = Context()
        context.hold(At.ROWS, np.ascontiguousarray(rows).reshape(-1))
        context.hold(At.BUFFER, reserve(size * words, np.uint64))
        context.hold(At.META, reserve(size, np.uint32))
        context.hold(At.KEPT, reserve(size, np.uint32))
        recent = context.hold(At.FILTER, reserve(self.code.filter_slots * words, np.uint64))
        recent.reshape(-1, words)[:] = rows[0]  # which is known: nothing is taken for it wrongly
        context.hold(At.TAKEN, np.zeros(max(instances, 1), np.int64))
        names = self.kernel.checks.names
        wanted = context.hold(At.WANTED, np.zeros(-(-len(names) // 64), np.uint64))
        for k, name in enumerate(names):
            if name not in known:
                wanted[k // 64] |= np.uint64(1 << k % 64)
        context.hold(At.FIRSTS, np.zeros(64 * len(wanted), np.int64))
        return context


class NativeShard:
    """A part of the visited set: its rows, and a hash table of them (or of their numbers)."""

    def __init__(self, kernel: Kernel) -> None:
        assert kernel.native is not None, "there is code"
        self.words = kernel.packing.words
        self._calls = kernel.native.compiled()
        self._context = context = Context()
        context.hold(At.ROWS, reserve(0, np.uint64))
        context.hold(At.HASHES, reserve(BLOCK, np.uint64))
        context.hold(At.RANKS, reserve(PART, np.int64))
        context.hold(At.SLOTS, reserve(PART, np.int64))
        self._capacity = 0
        self._table(SMALL_TABLE)

    @property
    def nbytes(self) -> int:
        """See `Shard`."""
        return 8 * self.words * len(self) + self._context.array(At.TABLE).nbytes

    def __len__(self) -> int:
        return self._context[At.COUNT]

    def _rows(self) -> Words:
        found: Words = self._context.array(At.ROWS)[: self._capacity * self.words]
        return found.reshape(-1, self.words)

    def load(self, rows: Words) -> None:
        """See `Shard`."""
        count = len(self)
        self._room(len(rows))
        self._rows()[count : count + len(rows)] = rows
        self._context[At.COUNT] = count + len(rows)
        if not self._grow(0):
            self._calls["rebuild"](self._context.address, count, len(self))

    def settle(self, parts: Iterator[Entries], most: int) -> Iterator[Entries]:
        """See `Shard`."""
        self._room(most)
        for entries in parts:
            for low in range(0, len(entries), PART):
                yield self._settle(np.ascontiguousarray(entries[low : low + PART]))

    def _settle(self, entries: Entries) -> Entries:
        context, count = self._context, len(self)
        self._grow(len(entries))
        context[At.NEWS] = 0
        context[At.NEW] = context[At.ROWS] + 8 * self.words * count
        address = entries.__array_interface__["data"][0]
        self._calls["consume"](context.address, address, len(entries))
        news = context[At.NEWS]
        context[At.COUNT] = count + news
        ranks = context.array(At.RANKS)[:news].astype(np.uint64)
        return with_ranks(self._rows()[count : count + news], ranks)

    def _room(self, more: int) -> None:
        """Address space for so many states more; what is not touched takes no memory."""
        wanted, count = len(self) + more, len(self)
        if wanted > self._capacity:
            old, self._capacity = self._rows()[:count], max(wanted, 2 * self._capacity)
            new = reserve(self._capacity * self.words, np.uint64)
            new.reshape(-1, self.words)[:count] = old
            self._context.hold(At.ROWS, new)

    def _grow(self, coming: int) -> bool:
        """Make the table large enough for so many entries more; says whether it was made anew."""
        slots = len(self._context.array(At.TABLE))
        if len(self) + coming <= FULL * slots:
            return False
        self._table(Native.slots_for(len(self) + 2 * coming, slots))
        self._calls["rebuild"](self._context.address, 0, len(self))
        return True

    def _table(self, slots: int) -> None:
        """An empty table; it takes rows of all shards, since only its own are offered."""
        context = self._context
        context.release(At.TABLE)
        context.hold(At.TABLE, reserve(slots, np.uint64, huge=True))
        context[At.SHIFT] = 65 - slots.bit_length()
        context[At.MASK] = slots - 1
