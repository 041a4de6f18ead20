"""
The frame of a spec in the native engine: blocks of successors, a hash table, and their loops.

A block of states is expanded into a buffer. Its successors are then *sifted*: brought into
canonical form, hashed, and dropped where a small filter of recently seen rows knows them; for those
that are left, memory is asked for the table's slots, so that it answers for many at once. Only then
they are looked up and, where new, numbered: in the order of their parents, then of the instances,
so that the numbers (and with them the shortest stories) are those of a search state by state.

All that the functions need lies in a *context*, an array of words that `At` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, auto

from herdspec.engine.columns import Packing
from herdspec.engine.native_emit import Checks, Expansion, Values
from herdspec.engine.native_text import Code, Value

BLOCK = 4096
"""Successors in a block, about: with their hashes they stay in the second cache."""
FILTER_BYTES = 1 << 20
"""The filter of recently seen rows: half of a second cache."""
FACTORS = (-0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
"""Odd numbers without a pattern, that products spread evenly by (those of splitmix64)."""
PRELUDE = (
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\ndeclare i64 @llvm.cttz.i64(i64, i1)\n"
)


class At(IntEnum):
    """Where things lie in a context; addresses unless said otherwise."""

    ROWS = 0
    """The states' words."""
    PARENTS = auto()
    """For each state, where it was found from (32 bits)."""
    BY = auto()
    """For each state, by which instance (16 bits)."""
    COUNT = auto()
    """The number of states."""
    LIMIT = auto()
    """The number of states that there may be before a block is expanded."""
    TABLE = auto()
    """The hash table: rows themselves, or their numbers from one, and a tag above."""
    SHIFT = auto()
    """By how much a hash is shifted to be a slot of the table (a number)."""
    MASK = auto()
    """The table's last slot (a number)."""
    FILTER = auto()
    """Recently seen rows, each in the place that its hash names."""
    BUFFER = auto()
    """The successors of a block."""
    META = auto()
    """For each successor, which state of the block (above) and instance (16 bits) it is by."""
    ENTRIES = auto()
    """The number of successors of the block."""
    KEPT = auto()
    """Which of them are left by the filter (32 bits)."""
    HASHES = auto()
    """The hashes of those that are left."""
    TAKEN = auto()
    """For each instance, how often it was taken."""
    DROPPED = auto()
    """The number of successors that were beyond a bound."""
    LIMITED = auto()
    """The number of states that were not gone on from."""
    WANTED = auto()
    """The conditions that are still looked for, bit by bit."""
    FIRSTS = auto()
    """For each bit, the first state of it."""
    SOURCE = auto()
    """The edges' states (32 bits)."""
    INSTANCE = auto()
    """The edges' instances (16 bits)."""
    TARGET = auto()
    """The states that the edges lead to (32 bits)."""
    EDGES = auto()
    """The number of edges that were written."""
    SHARD = auto()
    """Which of the shards this thread's table is (a number)."""
    SHARDS = auto()
    """The number of shards, less one: a mask of hashes."""
    OUT_EVEN = auto()
    """Rows that a thread produced for shard 0, each followed by its rank."""
    OUT_ODD = auto()
    """Rows that a thread produced for shard 1, each followed by its rank."""
    EVEN = auto()
    """The number of rows produced for shard 0."""
    ODD = auto()
    """The number of rows produced for shard 1."""
    NEW = auto()
    """The rows that a shard has not numbered yet."""
    RANKS = auto()
    """Their ranks: parents, and in the lowest 16 bits instances."""
    SLOTS = auto()
    """Where the table holds them."""
    NEWS = auto()
    """The number of these rows."""


CONTEXT_WORDS = len(At)


@dataclass(frozen=True)
class Runtime:
    """Writes the functions for one packing."""

    packing: Packing
    checks: Checks
    keys: bool
    """True if the table holds the rows themselves (of one word, not quite full)."""

    @property
    def words(self) -> int:
        """A row's words."""
        return self.packing.words

    @property
    def filter_slots(self) -> int:
        """The number of rows that the filter holds."""
        return 1 << ((FILTER_BYTES // (8 * self.words)).bit_length() - 1)

    def functions(self) -> list[Code]:
        """All functions."""
        found = [
            self.note(), self.expand(), self.sift(), self.ask(), self.insert(), self.search(),
            self.rebuild(),
        ]  # fmt: skip
        return found if self.keys else [*found, self.hash_all(), self.find(), self.edges()]

    def text(self, functions: list[Code]) -> str:
        """The whole module."""
        return PRELUDE + "".join(map(str, functions))

    # ── Rows ────────────────────────────────────────────────────────────────────────────────

    def row(self, code: Code, address: Value, number: Value) -> list[Value]:
        """The words of a row in an array of rows."""
        first = number if self.words == 1 else code.op("mul", number, self.words)
        places = [code.op("add", first, k) for k in range(self.words)]
        return [code.load(address, place) for place in places]

    def put_row(self, code: Code, address: Value, number: Value, words: list[Value]) -> None:
        """Set a row in an array of rows."""
        first = number if self.words == 1 else code.op("mul", number, self.words)
        for k, word in enumerate(words):
            code.store(address, code.op("add", first, k), word)

    def equal(self, code: Code, a: list[Value], b: list[Value]) -> Value:
        """The condition that two rows are the same."""
        found: Value = "0"
        for x, y in zip(a, b, strict=True):
            found = code.op("or", found, code.op("xor", x, y))
        return code.op("icmp eq", found, 0)

    def hashed(self, code: Code, words: list[Value]) -> Value:
        """A row's hash: multiply, shift and xor, as splitmix64 does."""
        found: Value = "0"
        for k, word in enumerate(words):
            mixed = code.op("xor", found, word) if k else word
            mixed = code.op("mul", mixed, FACTORS[0])
            found = code.op("xor", mixed, code.op("lshr", mixed, 32))
        found = code.op("mul", found, FACTORS[1])
        return code.op("xor", found, code.op("lshr", found, 29))

    def canonical(self, code: Code, words: list[Value]) -> list[Value]:
        """The row's representative: its blocks in order, sorted by a network."""
        found = list(words)
        for a, b in network(self.packing.blocks):
            in_order = code.op("icmp ult", found[a], found[b])
            least = code.choose(in_order, found[a], found[b])
            found[b] = code.choose(in_order, found[b], found[a])
            found[a] = least
        return found

    def context(self, code: Code, *fields: At) -> list[Value]:
        """The words of the context."""
        return [code.load("%context", int(field)) for field in fields]

    # ── A block of successors ───────────────────────────────────────────────────────────────

    def note(self) -> Code:
        """Note the first state of something looked for: `hits` of a group of 64."""
        code = Code("note", "context", "group", "state", "hits")
        wanted, firsts = self.context(code, At.WANTED, At.FIRSTS)
        left = code.variable(code.op("and", "%hits", code.load(wanted, "%group")))
        base = code.op("shl", "%group", 6)
        with code.repeat() as done:
            bits = code.get(left)
            code.leave(done, code.op("icmp eq", bits, 0))
            bit = code.new(f"call i64 @llvm.cttz.i64(i64 {bits}, i1 true)")
            code.store(firsts, code.op("add", base, bit), "%state")
            rest = code.op("and", bits, code.op("sub", bits, 1))
            gone = code.op("xor", bits, rest)
            still = code.op("xor", code.load(wanted, "%group"), gone)
            code.store(wanted, "%group", still)
            code.set(left, rest)
        code.give(0)
        return code

    def expand(self) -> Code:
        """Fill the buffer with the successors of states from `first` on; returns where to go on."""
        code = Code("expand", "context", "first", "last")
        rows, buffer, meta = self.context(code, At.ROWS, At.BUFFER, At.META)
        entries = code.variable(0)
        dropped, limited = code.variable(0), code.variable(0)
        state = code.variable("%first")
        end = self._least(code, "%last", code.op("add", "%first", BLOCK))
        with code.repeat() as done:
            present = code.get(state)
            code.leave(done, code.op("icmp sge", present, end))
            code.leave(done, code.op("icmp sge", code.get(entries), BLOCK))
            values = Values(code, self.packing, self.row(code, rows, present))
            above = code.op("shl", code.op("sub", present, "%first"), 16)

            def put(words: list[Value], instance: int, live: Value, above: Value = above) -> None:
                at = code.get(entries)
                self.put_row(code, buffer, at, words)
                code.store(meta, at, code.op("or", above, instance), 32)
                code.set(entries, code.op("add", at, code.wide(live)))

            expansion = Expansion(values, self.checks, entries, put)
            expansion.emit()
            code.increase(dropped, code.get(expansion.dropped))
            allowed = code.wide(values.of(self.checks.limit))
            code.increase(limited, code.op("sub", "1", allowed))
            self._look(code, present, expansion.hits)
            code.increase(state, 1)
        code.store("%context", At.ENTRIES, code.get(entries))
        for field, variable in ((At.DROPPED, dropped), (At.LIMITED, limited)):
            [before] = self.context(code, field)
            code.store("%context", field, code.op("add", before, code.get(variable)))
        code.give(code.get(state))
        return code

    def _look(self, code: Code, state: Value, hits: list[Value]) -> None:
        """Note what was found in a state, if it is still looked for."""
        [wanted] = self.context(code, At.WANTED)
        for group, variable in enumerate(hits):
            found = code.get(variable)
            new = code.op("and", found, code.load(wanted, group))
            with code.when(code.op("icmp ne", new, 0)):
                code.call("note", "%context", group, state, found)
            code.set(variable, 0)

    def _least(self, code: Code, a: Value, b: Value) -> Value:
        return code.choose(code.op("icmp slt", a, b), a, b)

    def sift(self) -> Code:
        """Count the successors, and drop what the filter knows; returns how many are left."""
        code = Code("sift", "context")
        buffer, meta, entries, kept = self.context(code, At.BUFFER, At.META, At.ENTRIES, At.KEPT)
        recent, taken = self.context(code, At.FILTER, At.TAKEN)
        left = code.variable(0)
        with code.loop(0, entries) as entry:
            self._count(code, taken, meta, entry)
            words = self.row(code, buffer, entry)
            if self.packing.blocks > 1:
                words = self.canonical(code, words)
                self.put_row(code, buffer, entry, words)
            place = self.place(code, words)
            seen = self.equal(code, words, self.row(code, recent, place))
            self.put_row(code, recent, place, words)
            at = code.get(left)
            code.store(kept, at, entry, 32)
            code.set(left, code.op("add", at, code.choose(seen, 0, 1)))
        code.give(code.get(left))
        return code

    def place(self, code: Code, words: list[Value]) -> Value:
        """Where a row is in the filter: the top of a sum of products, one for each word."""
        found: Value = "0"
        for k, word in enumerate(words):
            mixed = code.op("mul", word, FACTORS[k % len(FACTORS)])
            found = code.op("add", found, mixed)
            if k + 1 < len(words):
                found = code.op("xor", found, code.op("lshr", found, 31))
        return code.op("lshr", found, 65 - self.filter_slots.bit_length())

    def ask(self) -> Code:
        """Hash the successors that are left, and ask memory for their slots."""
        code = Code("ask", "context", "left")
        buffer, kept, hashes = self.context(code, At.BUFFER, At.KEPT, At.HASHES)
        table, shift = self.context(code, At.TABLE, At.SHIFT)
        with code.loop(0, "%left") as k:
            words = self.row(code, buffer, code.load(kept, k, 32))
            code_hash = self.hashed(code, words)
            code.store(hashes, k, code_hash)
            code.prefetch(table, code.op("lshr", code_hash, shift), 8)
        if not self.keys:
            self.prefetch_rows(code, "%left", hashes)
        code.give(0)
        return code

    def _count(self, code: Code, taken: Value, meta: Value, entry: Value) -> None:
        instance = code.op("and", code.load(meta, entry, 32), 0xFFFF)
        code.store(taken, instance, code.op("add", code.load(taken, instance), 1))

    def insert(self) -> Code:
        """Look the `left` successors up, and number those that are new."""
        code = Code("insert", "context", "first", "left")
        buffer, meta, kept, hashes = self.context(code, At.BUFFER, At.META, At.KEPT, At.HASHES)
        rows, parents, by, table, shift, mask, before = self.context(
            code, At.ROWS, At.PARENTS, At.BY, At.TABLE, At.SHIFT, At.MASK, At.COUNT
        )
        count = code.variable(before)
        with code.loop(0, "%left") as k:
            entry, code_hash = code.load(kept, k, 32), code.load(hashes, k)
            words = self.row(code, buffer, entry)
            slot = code.variable(code.op("lshr", code_hash, shift))
            with code.repeat() as done:
                at = code.get(slot)
                held = code.load(table, at)
                with code.when(code.op("icmp eq", held, 0)):
                    number = code.get(count)
                    code.store(table, at, self.mark(code, words, code_hash, number))
                    self.put_row(code, rows, number, words)
                    how = code.load(meta, entry, 32)
                    parent = code.op("add", "%first", code.op("lshr", how, 16))
                    code.store(parents, number, parent, 32)
                    code.store(by, number, code.op("and", how, 0xFFFF), 16)
                    code.set(count, code.op("add", number, 1))
                    code.leave(done, "true")
                self.leave_if_same(code, done, held, words, code_hash, rows)
                code.set(slot, code.op("and", code.op("add", at, 1), mask))
        code.store("%context", At.COUNT, code.get(count))
        code.give(0)
        return code

    def mark(self, code: Code, words: list[Value], code_hash: Value, number: Value) -> Value:
        """The number that the table holds of a row; never zero, which is an empty slot."""
        if self.keys:
            return code.op("add", words[0], 1)
        return code.op("or", code.op("shl", code_hash, 32), code.op("add", number, 1))

    def leave_if_same(
        self, code: Code, label: str, held: Value, words: list[Value], code_hash: Value, rows: Value
    ) -> None:
        """Leave a loop where what the table holds is this row."""
        if self.keys:
            code.leave(label, code.op("icmp eq", held, self.mark(code, words, code_hash, "0")))
            return
        with code.when(self.tags_agree(code, held, code_hash)):
            number = self.number(code, held)
            code.leave(label, self.equal(code, words, self.row(code, rows, number)))

    def tags_agree(self, code: Code, held: Value, code_hash: Value) -> Value:
        """The condition that a slot may hold the row with this hash."""
        return code.op("icmp eq", code.op("lshr", held, 32), code.op("and", code_hash, 0xFFFFFFFF))

    def number(self, code: Code, held: Value) -> Value:
        """The number of the row that a slot holds."""
        return code.op("sub", code.op("and", held, 0xFFFFFFFF), 1)

    def prefetch_rows(self, code: Code, left: Value, hashes: Value) -> None:
        """Ask memory for the rows that the successors may be equal to."""
        rows, table, shift = self.context(code, At.ROWS, At.TABLE, At.SHIFT)
        with code.loop(0, left) as k:
            code_hash = code.load(hashes, k)
            slot = code.op("lshr", code_hash, shift)
            held = code.load(table, slot)
            found = code.choose(self.tags_agree(code, held, code_hash), self.number(code, held), 0)
            code.prefetch(rows, code.op("mul", found, self.words), 8)

    # ── The loops around them ───────────────────────────────────────────────────────────────

    def search(self) -> Code:
        """
        Expand the states from `first` to before `last`, and number what is new.

        Returns where to go on: before `last` where the table or the store must grow first.
        """
        code = Code("search", "context", "first", "last")
        state = code.variable("%first")
        with code.repeat() as done:
            present = code.get(state)
            code.leave(done, code.op("icmp sge", present, "%last"))
            count, limit = self.context(code, At.COUNT, At.LIMIT)
            code.leave(done, code.op("icmp sgt", count, limit))
            code.set(state, code.call("expand", "%context", present, "%last"))
            left = code.call("sift", "%context")
            code.call("ask", "%context", left)
            code.call("insert", "%context", present, left)
        code.give(code.get(state))
        return code

    def rebuild(self) -> Code:
        """Enter the rows from `first` to before `last` into the table; each is there once."""
        code = Code("rebuild", "context", "first", "last")
        rows, table, shift, mask, hashes = self.context(
            code, At.ROWS, At.TABLE, At.SHIFT, At.MASK, At.HASHES
        )
        shard, shards = self.context(code, At.SHARD, At.SHARDS)
        low = code.variable("%first")
        with code.repeat() as done:
            begin = code.get(low)
            code.leave(done, code.op("icmp sge", begin, "%last"))
            end = self._least(code, "%last", code.op("add", begin, BLOCK))
            with code.loop(begin, end) as number:
                code_hash = self.hashed(code, self.row(code, rows, number))
                code.store(hashes, code.op("sub", number, begin), code_hash)
                code.prefetch(table, code.op("lshr", code_hash, shift), 8)
            with code.loop(begin, end) as number:
                code_hash = code.load(hashes, code.op("sub", number, begin))
                mine = code.op("icmp eq", code.op("and", code_hash, shards), shard)
                with code.when(mine):
                    self._enter(code, rows, number, code_hash, (table, shift, mask))
            code.set(low, end)
        code.give(0)
        return code

    def _enter(
        self, code: Code, rows: Value, number: Value, code_hash: Value,
        where: tuple[Value, Value, Value],
    ) -> None:  # fmt: skip
        """Enter a row that is not in the table."""
        table, shift, mask = where
        slot = code.variable(code.op("lshr", code_hash, shift))
        with code.repeat() as empty:
            at = code.get(slot)
            code.leave(empty, code.op("icmp eq", code.load(table, at), 0))
            code.set(slot, code.op("and", code.op("add", at, 1), mask))
        words = self.row(code, rows, number) if self.keys else []
        code.store(table, code.get(slot), self.mark(code, words, code_hash, number))

    # ── The graph ───────────────────────────────────────────────────────────────────────────

    def hash_all(self) -> Code:
        """Hash all successors of a block in canonical form, and ask memory for their slots."""
        code = Code("hash_all", "context")
        buffer, entries, hashes, table, shift = self.context(
            code, At.BUFFER, At.ENTRIES, At.HASHES, At.TABLE, At.SHIFT
        )
        with code.loop(0, entries) as entry:
            words = self.canonical(code, self.row(code, buffer, entry))
            self.put_row(code, buffer, entry, words)
            code_hash = self.hashed(code, words)
            code.store(hashes, entry, code_hash)
            code.prefetch(table, code.op("lshr", code_hash, shift), 8)
        self.prefetch_rows(code, entries, hashes)
        code.give(0)
        return code

    def find(self) -> Code:
        """The number of the row at an address, whose hash is given, or -1."""
        code = Code("find", "context", "row", "hash")
        rows, table, shift, mask = self.context(code, At.ROWS, At.TABLE, At.SHIFT, At.MASK)
        words = self.row(code, "%row", "0")
        slot = code.variable(code.op("lshr", "%hash", shift))
        with code.repeat() as done:
            at = code.get(slot)
            held = code.load(table, at)
            with code.when(code.op("icmp eq", held, 0)):
                code.give(-1)
            self.leave_if_same(code, done, held, words, "%hash", rows)
            code.set(slot, code.op("and", code.op("add", at, 1), mask))
        code.give(self.number(code, code.load(table, code.get(slot))))
        return code

    def edges(self) -> Code:
        """Write the edges of the states from `first` to before `last`, all of which were found."""
        code = Code("edges", "context", "first", "last")
        buffer, meta, hashes, sources, instances, targets = self.context(
            code, At.BUFFER, At.META, At.HASHES, At.SOURCE, At.INSTANCE, At.TARGET
        )
        written = code.variable(*self.context(code, At.EDGES))
        state = code.variable("%first")
        with code.repeat() as done:
            present = code.get(state)
            code.leave(done, code.op("icmp sge", present, "%last"))
            code.set(state, code.call("expand", "%context", present, "%last"))
            code.call("hash_all", "%context")
            with code.loop(0, *self.context(code, At.ENTRIES)) as entry:
                how = code.load(meta, entry, 32)
                row = code.op("add", buffer, code.op("mul", entry, 8 * self.words))
                number = code.call("find", "%context", row, code.load(hashes, entry))
                at = code.get(written)
                code.store(sources, at, code.op("add", present, code.op("lshr", how, 16)), 32)
                code.store(instances, at, code.op("and", how, 0xFFFF), 16)
                code.store(targets, at, number, 32)
                code.set(written, code.op("add", at, 1))
        code.store("%context", At.EDGES, code.get(written))
        code.give(code.get(state))
        return code


def network(size: int) -> Iterator[tuple[int, int]]:
    """The comparisons of Batcher's odd-even merge sort, in order (Knuth, volume 3, 5.2.2 M)."""
    top = 1 << max(size - 1, 0).bit_length() >> 1
    p = top
    while p:
        q, r, d = top, 0, p
        while True:
            yield from ((i, i + d) for i in range(size - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1
