"""
The native engine with two threads, which number the states as one thread would.

The states of a level are taken in *rounds*. In each, both threads expand a share (the first thread
the earlier states) and sort what they find by *shard*, a bit of the hash; then each thread looks up
the rows of one shard, those of the first thread first, in a table of its own; at last the new rows
of both shards, each in order of rank (parent, then instance), are merged and numbered. Between
these phases the threads wait for each other; within one they share nothing that is written.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from herdspec.engine.columns import Packing
from herdspec.engine.native import FULL, SMALL_TABLE, THREADS, Context, Native, reserve
from herdspec.engine.native_emit import Checks
from herdspec.engine.native_runtime import BLOCK, At, Runtime
from herdspec.engine.native_text import Code, Value

ROUND = 8192
"""States that a thread expands in a round, at most."""
ENTRIES = 1 << 19
"""Successors that a thread may have to keep in a round, about."""
LEAST = 64
"""States of a round that must fit into memory with all that they could lead to."""
LITTLE = 2048
"""The number of states that are not worth a second thread."""


@dataclass(frozen=True)
class ThreadedRuntime(Runtime):
    """Writes the functions of the three phases."""

    def functions(self) -> list[Code]:
        """All functions."""
        others = [self.scatter(), self.produce(), self.consume(), self.merge()]
        return [*super().functions(), *others]

    def scatter(self) -> Code:
        """Sort the successors that are left by shard."""
        code = Code("scatter", "context", "first", "left")
        buffer, meta, kept = self.context(code, At.BUFFER, At.META, At.KEPT)
        out, counts = self.context(code, At.OUT_EVEN, At.OUT_ODD), (At.EVEN, At.ODD)
        even, odd = (code.variable(n) for n in self.context(code, *counts))
        above = code.op("shl", "%first", 16)
        with code.loop(0, "%left") as k:
            entry = code.load(kept, k, 32)
            words = self.row(code, buffer, entry)
            is_odd = code.new(f"trunc i64 {self.hashed(code, words)} to i1")
            where = code.choose(is_odd, out[1], out[0])
            at = code.choose(is_odd, code.get(odd), code.get(even))
            place = code.op("mul", at, self.words + 1)
            rank = code.op("add", above, code.load(meta, entry, 32))
            for j, word in enumerate([*words, rank]):
                code.store(where, code.op("add", place, j), word)
            code.increase(odd, code.wide(is_odd))
            code.increase(even, code.choose(is_odd, 0, 1))
        code.store("%context", At.EVEN, code.get(even))
        code.store("%context", At.ODD, code.get(odd))
        code.give(0)
        return code

    def produce(self) -> Code:
        """The first phase: expand the states from `first` to before `last`."""
        code = Code("produce", "context", "first", "last")
        state = code.variable("%first")
        with code.repeat() as done:
            present = code.get(state)
            code.leave(done, code.op("icmp sge", present, "%last"))
            code.set(state, code.call("expand", "%context", present, "%last"))
            left = code.call("sift", "%context")
            code.call("scatter", "%context", present, left)
        code.give(0)
        return code

    def consume(self) -> Code:
        """The second phase: look up `count` rows that were produced for this shard."""
        code = Code("consume", "context", "entries", "count")
        low = code.variable(0)
        with code.repeat() as done:
            begin = code.get(low)
            code.leave(done, code.op("icmp sge", begin, "%count"))
            end = self._least(code, "%count", code.op("add", begin, BLOCK))
            self._ask_for_entries(code, begin, end)
            self._look_up(code, begin, end)
            code.set(low, end)
        code.give(0)
        return code

    def _entry(self, code: Code, k: Value) -> tuple[list[Value], Value]:
        """A produced row, and its rank."""
        place = code.op("mul", k, self.words + 1)
        *words, rank = (
            code.load("%entries", code.op("add", place, j)) for j in range(self.words + 1)
        )
        return words, rank

    def _ask_for_entries(self, code: Code, begin: Value, end: Value) -> None:
        hashes, table, shift = self.context(code, At.HASHES, At.TABLE, At.SHIFT)
        with code.loop(begin, end) as k:
            words, _ = self._entry(code, k)
            code_hash = self.hashed(code, words)
            code.store(hashes, code.op("sub", k, begin), code_hash)
            code.prefetch(table, code.op("lshr", code_hash, shift), 8)
        if not self.keys:
            self.prefetch_rows(code, code.op("sub", end, begin), hashes)

    def _look_up(self, code: Code, begin: Value, end: Value) -> None:
        hashes, table, shift, mask = self.context(code, At.HASHES, At.TABLE, At.SHIFT, At.MASK)
        new, ranks, slots, base = self.context(code, At.NEW, At.RANKS, At.SLOTS, At.COUNT)
        news = code.variable(*self.context(code, At.NEWS))
        with code.loop(begin, end) as k:
            words, rank = self._entry(code, k)
            code_hash = code.load(hashes, code.op("sub", k, begin))
            slot = code.variable(code.op("lshr", code_hash, shift))
            with code.repeat() as done:
                at = code.get(slot)
                held = code.load(table, at)
                with code.when(code.op("icmp eq", held, 0)):
                    place = code.get(news)
                    number = code.op("add", base, place)
                    code.store(table, at, self.mark(code, words, code_hash, number))
                    self.put_row(code, new, place, words)
                    code.store(ranks, place, rank)
                    code.store(slots, place, at)
                    code.set(news, code.op("add", place, 1))
                    code.leave(done, "true")
                self._leave_if_known(code, done, held, words, code_hash)
                code.set(slot, code.op("and", code.op("add", at, 1), mask))
        code.store("%context", At.NEWS, code.get(news))

    def _leave_if_known(
        self, code: Code, label: str, held: Value, words: list[Value], code_hash: Value
    ) -> None:
        """Leave a loop where what the table holds is this row, numbered or still new."""
        rows, new, base = self.context(code, At.ROWS, At.NEW, At.COUNT)
        if self.keys:
            self.leave_if_same(code, label, held, words, code_hash, rows)
            return
        with code.when(self.tags_agree(code, held, code_hash)):
            number = self.number(code, held)
            is_new = code.op("icmp sge", number, base)
            where = code.choose(is_new, new, rows)
            place = code.choose(is_new, code.op("sub", number, base), number)
            code.leave(label, self.equal(code, words, self.row(code, where, place)))

    def merge(self) -> Code:
        """The third phase: number this shard's new rows among the other's, by their ranks."""
        code = Code("merge", "context", "others", "count")
        new, ranks, slots, news, base = self.context(
            code, At.NEW, At.RANKS, At.SLOTS, At.NEWS, At.COUNT
        )
        rows, parents, by, table = self.context(code, At.ROWS, At.PARENTS, At.BY, At.TABLE)
        passed = code.variable(0)
        with code.loop(0, news) as k:
            rank = code.load(ranks, k)
            with code.repeat() as done:
                other = code.get(passed)
                code.leave(done, code.op("icmp sge", other, "%count"))
                code.leave(done, code.op("icmp sgt", code.load("%others", other), rank))
                code.set(passed, code.op("add", other, 1))
            number = code.op("add", base, code.op("add", k, code.get(passed)))
            self.put_row(code, rows, number, self.row(code, new, k))
            code.store(parents, number, code.op("lshr", rank, 16), 32)
            code.store(by, number, code.op("and", rank, 0xFFFF), 16)
            if not self.keys:
                slot = code.load(slots, k)
                tag = code.op("and", code.load(table, slot), -1 << 32)
                code.store(table, slot, code.op("or", tag, code.op("add", number, 1)))
        code.give(0)
        return code


class Threaded(Native):
    """The states of one search, expanded by two threads."""

    runtime_class = ThreadedRuntime

    def __init__(self, packing: Packing, checks: Checks, budget: int, keys: bool = True) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self.workers: list[Context] = []
        self.held = [0, 0]
        super().__init__(packing, checks, budget, keys)
        instances = max(len(packing.ground.instances), 1)
        self.round = max(min(ROUND, ENTRIES // instances), LEAST)
        self.workers = [self._worker(k, self.round * instances) for k in range(THREADS)]
        self.grow()

    def _worker(self, number: int, entries: int) -> Context:
        """A thread's context: its own scratch and table, the states of all."""
        worker = Context()
        self._scratch(worker)
        for at in (At.ROWS, At.PARENTS, At.BY):
            worker.hold(at, self.context.array(at))
        words = self.packing.words
        for at in (At.OUT_EVEN, At.OUT_ODD):
            worker.hold(at, reserve((entries + 1) * (words + 1), np.uint64))
        worker.hold(At.NEW, reserve(THREADS * entries * words, np.uint64))
        worker.hold(At.RANKS, reserve(THREADS * entries, np.int64))
        worker.hold(At.SLOTS, reserve(THREADS * entries, np.int64))
        worker.hold(At.TABLE, reserve(SMALL_TABLE, np.uint64))
        worker[At.SHARD], worker[At.SHARDS] = number, THREADS - 1
        return worker

    # ── The search ──────────────────────────────────────────────────────────────────────────

    def search(self, first: int, last: int, expected: int = 0) -> int:
        """Expand the states from `first` to before `last`; see `Native.search`."""
        if last - first < LITTLE:
            return self._rounds(first, last, expected, self._one_by_one)
        return self._rounds(first, last, expected, self._together)

    def _rounds(
        self, first: int, last: int, expected: int,
        run: Callable[[Callable[[int], object]], None],
    ) -> int:  # fmt: skip
        instances = max(len(self.packing.ground.instances), 1)
        while first < last:
            wanted = min(self.round, -(-(last - first) // THREADS))
            share = min(wanted, (self.capacity - len(self)) // (THREADS * instances))
            if share < min(wanted, LEAST):
                break
            shares = [(first + k * share, min(first + (k + 1) * share, last)) for k in (0, 1)]
            self._round(shares, expected, run)
            first = shares[-1][1]
        return first

    def _round(
        self, shares: list[tuple[int, int]], expected: int,
        run: Callable[[Callable[[int], object]], None],
    ) -> None:  # fmt: skip
        calls, workers = self._calls, self.workers
        for worker in workers:
            worker[At.COUNT] = len(self)
            worker[At.EVEN] = worker[At.ODD] = worker[At.NEWS] = 0
        run(lambda k: calls["produce"](workers[k].address, *shares[k]))
        self._make_room(expected, run)
        run(self._consume)
        ranks = [(w.words[At.RANKS], w[At.NEWS]) for w in workers]
        run(lambda k: calls["merge"](workers[k].address, *ranks[1 - k]))
        for k, worker in enumerate(workers):
            self.held[k] += worker[At.NEWS]
        self.context[At.COUNT] += sum(count for _, count in ranks)

    def _consume(self, k: int) -> None:
        worker = self.workers[k]
        for producer in self.workers:
            out = producer.words[At.OUT_ODD if k else At.OUT_EVEN]
            count = producer[At.ODD if k else At.EVEN]
            self._calls["consume"](worker.address, int(out), count)

    def _one_by_one(self, work: Callable[[int], object]) -> None:
        for k in range(THREADS):
            work(k)

    def _together(self, work: Callable[[int], object]) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "explore")
        other = self._pool.submit(work, 1)
        work(0)
        other.result()

    def close(self) -> None:
        """The search is over: let the second thread go."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    # ── Tables ──────────────────────────────────────────────────────────────────────────────

    def _make_room(self, expected: int, run: Callable[[Callable[[int], object]], None]) -> None:
        """Let a shard's table grow if it would become too full."""
        coming = [sum(w[at] for w in self.workers) for at in (At.EVEN, At.ODD)]
        slots = [len(w.array(At.TABLE)) for w in self.workers]
        full = [self.held[k] + coming[k] > FULL * slots[k] for k in range(THREADS)]
        if any(full):
            half = min(expected, 4 * len(self)) // THREADS
            wanted = [max(self.held[k] + 2 * coming[k], half) for k in range(THREADS)]
            run(lambda k: self._rebuild(k, wanted[k]) if full[k] else None)

    def _rebuild(self, k: int, wanted: int) -> None:
        worker = self.workers[k]
        slots = self.slots_for(wanted, len(worker.array(At.TABLE)))
        self._give_table(worker, slots)
        self._calls["rebuild"](worker.address, 0, len(self))

    def grow(self, expected: int = 0) -> None:
        """Make the tables anew, large enough for what there is."""
        self.context.release(At.TABLE)
        filled = self.rows[0] if len(self) else 0
        for k, worker in enumerate(self.workers):
            worker.array(At.FILTER).reshape(-1, self.packing.words)[:] = filled
            self._rebuild(k, max(len(self), expected // THREADS))
            self.held[k] = int(np.count_nonzero(worker.array(At.TABLE)))

    @property
    def nbytes(self) -> int:
        """Memory in use for states and the tables."""
        tables = sum(worker.array(At.TABLE).nbytes for worker in self.workers)
        return len(self) * (8 * self.packing.words + 6) + tables

    # ── What was found ──────────────────────────────────────────────────────────────────────

    @property
    def taken(self) -> NDArray[np.int64]:
        """For each instance, how often it was taken."""
        found = [w.array(At.TAKEN) for w in self.workers]
        total: NDArray[np.int64] = np.sum(found, axis=0)[: len(self.packing.ground.instances)]
        return total

    @property
    def dropped(self) -> int:
        """The number of successors that were beyond a bound."""
        return sum(worker[At.DROPPED] for worker in self.workers)

    @property
    def limited(self) -> int:
        """The number of states that were not gone on from, because of the constraint."""
        return sum(worker[At.LIMITED] for worker in self.workers)

    @property
    def firsts(self) -> dict[str, int]:
        """The first state of each thing that was looked for and found."""
        found: dict[str, int] = {}
        for worker in self.workers:
            for name, state in self.firsts_of(worker).items():
                found[name] = min(found.get(name, state), state)
        return found
