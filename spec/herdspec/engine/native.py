"""
The native engine: a ground spec compiled by LLVM, and the memory that it works on.

`Native` holds a search's states (rows, where each was found from and by which instance) and expands
them; whoever drives it says which. Memory is reserved as a whole and committed by the operating
system as it is touched, so that nothing is copied when a search grows; the hash table is made anew,
from the rows, when it is nearly full.

Compiling takes 0.1 to 0.3 s: few of LLVM's passes pay for themselves on code that runs for seconds.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from ctypes import CFUNCTYPE, c_int64
from functools import lru_cache
from platform import machine
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from herdspec.engine.columns import Packing, Words
from herdspec.engine.native_emit import Checks, Unsupported
from herdspec.engine.native_runtime import BLOCK, CONTEXT_WORDS, At, Runtime
from herdspec.engine.native_text import Code

THREADS = 2
"""The most threads that there can be (`native_threads.py`)."""
MOST_STATES = (1 << 32) - 2
"""The most states that the table can number."""
MOST_INSTANCES = 1 << 16
FULL = 0.7
"""The share of the table's slots that are taken before it grows."""
SMALL_TABLE = 1 << 16
LARGE_TABLE = 1 << 20
"""From so many slots on a table is doubled, and no longer made four times as large."""

NO_PARENT = (1 << 32) - 1
"""Where an initial state was found from."""

Functions = Mapping[str, Callable[..., int]]


def _machine() -> Any:
    """The target that code is compiled for, this processor; an engine that is made owns it."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(),
        opt=2, jit=True,
    )  # fmt: skip


@lru_cache(maxsize=4)
def compiled(text: str) -> tuple[Any, Mapping[str, int]]:
    """The machine code of a module and its functions' addresses; the last few are kept."""
    from llvmlite import binding

    machine = _machine()
    module = binding.parse_assembly(text)
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(1))
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()  # variables become registers
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    names = [f.name for f in module.functions if not f.is_declaration]
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, {name: engine.get_function_address(name) for name in names}


def functions(codes: list[Code], text: str) -> Functions:
    """A module's functions, ready to be called; while they run, other threads may."""
    engine, addresses = compiled(text)
    found: dict[str, Callable[..., int]] = {}
    for code in codes:
        made: Any = CFUNCTYPE(c_int64, *[c_int64] * len(code.parameters))(addresses[code.name])
        made.engine = engine  # the code lives as long as somebody may call it
        found[code.name] = made
    return found


# Linux takes arrays that lie side by side for one, and refuses a fork where a copy of it would not
# fit into all memory there is; where nothing is to be reserved for an array, it does not ask.
_NORESERVE = 0x4000 if machine() in {"x86_64", "aarch64"} and sys.platform == "linux" else 0
"""`MAP_NORESERVE`, which Python has no name for before 3.13."""
_PRIVATE = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE}
    if hasattr(mmap, "MAP_PRIVATE")
    else {}
)


def reserve(count: int, dtype: DTypeLike, huge: bool = False) -> NDArray[Any]:
    """
    An array of zeros that takes memory only where it is touched, if `huge` in pages of megabytes.

    Raises `OSError` (or `MemoryError`) where the system grants no address space of this size.
    """
    size = max(count, 1) * np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, size, **_PRIVATE)
    if huge and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages: slower, not wrong
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype, count)


class Context:
    """The data that a thread's functions work on: numbers and addresses, by their place in `At`."""

    def __init__(self) -> None:
        self.words = np.zeros(CONTEXT_WORDS, np.int64)
        self._held: dict[At, NDArray[Any]] = {}

    @property
    def address(self) -> int:
        """Where it lies."""
        return self.words.__array_interface__["data"][0]  # type: ignore[no-any-return]

    def __getitem__(self, at: At) -> int:
        return int(self.words[at])

    def __setitem__(self, at: At, number: int) -> None:
        self.words[at] = number

    def hold(self, at: At, array: NDArray[Any]) -> NDArray[Any]:
        """Let the functions work on an array, and keep it as long as this context."""
        self._held[at] = array
        self.words[at] = array.__array_interface__["data"][0]
        return array

    def release(self, at: At) -> None:
        """Give an array back."""
        self._held.pop(at, None)
        self.words[at] = 0

    def array(self, at: At) -> NDArray[Any]:
        """An array that is held."""
        return self._held[at]


def why_not(packing: Packing) -> str:
    """Why the native engine cannot explore this, or nothing."""
    try:
        import llvmlite  # noqa: F401
    except ImportError:
        return "llvmlite is not installed"
    if len(packing.ground.instances) >= MOST_INSTANCES:
        return f"there are {len(packing.ground.instances):,} instances of actions"
    return ""


class Native:
    """
    The states of one search, and what expands them.

    `budget` bounds the memory in bytes. Raises `Unsupported` where a formula cannot be compiled.
    """

    runtime_class = Runtime

    def __init__(self, packing: Packing, checks: Checks, budget: int, keys: bool = True) -> None:
        self.packing = packing
        self.checks = checks
        self.keys = keys and packing.words == 1 and _used_bits(packing) < 64
        self.runtime = self.runtime_class(packing, checks, self.keys)
        self._room = 2 * (BLOCK + len(packing.ground.instances))
        codes = self.runtime.functions()
        self._calls = functions(codes, self.runtime.text(codes))
        self.context = Context()
        self._scratch(self.context)
        self._reserve(budget)
        self._new_table(SMALL_TABLE)

    def _scratch(self, context: Context) -> None:
        """The arrays that a block of successors needs."""
        words, instances = self.packing.words, len(self.packing.ground.instances)
        size = BLOCK + instances + 1
        context.hold(At.BUFFER, reserve(size * words, np.uint64))
        context.hold(At.META, reserve(size, np.uint32))
        context.hold(At.KEPT, reserve(size, np.uint32))
        context.hold(At.HASHES, reserve(size, np.uint64))
        context.hold(At.FILTER, reserve(self.runtime.filter_slots * words, np.uint64))
        context.hold(At.TAKEN, np.zeros(max(instances, 1), np.int64))
        bits = len(self.checks.names)
        wanted = context.hold(At.WANTED, np.zeros(-(-bits // 64), np.uint64))
        for k in range(bits):
            wanted[k // 64] |= np.uint64(1 << k % 64)
        context.hold(At.FIRSTS, np.zeros(64 * len(wanted), np.int64))

    def _reserve(self, budget: int) -> None:
        """Reserve room for as many states as the budget allows, or the system grants."""
        each = 8 * self.packing.words + 6 + int(8 / FULL)
        capacity = min(max(budget // each, 1 << 16), MOST_STATES)
        while True:
            try:
                rows = reserve(capacity * self.packing.words, np.uint64, huge=True)
                parents = reserve(capacity, np.uint32, huge=True)
                by = reserve(capacity, np.uint16, huge=True)
                break
            except (OSError, MemoryError):
                if capacity <= 1 << 16:
                    raise
                capacity //= 2
        self.capacity = capacity
        self.context.hold(At.ROWS, rows)
        self.context.hold(At.PARENTS, parents)
        self.context.hold(At.BY, by)

    # ── States ──────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return self.context[At.COUNT]

    @property
    def rows(self) -> Words:
        """All states, in the order in which they were found."""
        found: Words = self.context.array(At.ROWS).reshape(-1, self.packing.words)
        return found[: len(self)]

    @property
    def parents(self) -> NDArray[np.uint32]:
        """For each state, where it was found from (`NO_PARENT` of an initial one)."""
        return self.context.array(At.PARENTS)[: len(self)]

    @property
    def by(self) -> NDArray[np.uint16]:
        """For each state, by which instance it was found."""
        return self.context.array(At.BY)[: len(self)]

    @property
    def nbytes(self) -> int:
        """Memory in use for states and the table."""
        return len(self) * (8 * self.packing.words + 6) + self.context.array(At.TABLE).nbytes

    def load(self, rows: Words, parents: NDArray[np.uint32], by: NDArray[np.uint16]) -> None:
        """Take over states that were found elsewhere; raises MemoryError where they do not fit."""
        count = len(rows)
        if count + self._room > self.capacity:
            raise MemoryError(f"{count:,} states do not fit into the memory budget")
        self.context[At.COUNT] = count
        self.rows[:], self.parents[:], self.by[:] = rows, parents, by
        self.context.array(At.FILTER).reshape(-1, self.packing.words)[:] = rows[0]
        self.grow(count)

    # ── The search ──────────────────────────────────────────────────────────────────────────

    def search(self, first: int, last: int, expected: int = 0) -> int:
        """
        Expand the states from `first` to before `last`; returns where to go on.

        That is before `last` where the memory budget is used up. `expected` is an estimate of how
        many states there will be in all, for the table's size.
        """
        while first < last and len(self) < self.capacity - self._room:
            first = self._calls["search"](self.context.address, first, last)
            if len(self) > self._limit:
                self.grow(expected)
        return first

    def grow(self, expected: int = 0) -> None:
        """Make the table large enough for what there is, or is expected soon."""
        wanted = max(len(self) + 2 * self._room, min(expected, 4 * len(self)))
        self._new_table(self.slots_for(wanted, len(self.context.array(At.TABLE))))
        self._calls["rebuild"](self.context.address, 0, len(self))

    @staticmethod
    def slots_for(wanted: int, slots: int) -> int:
        """A table's size for so many states, not smaller than it is."""
        while FULL * slots < wanted:
            slots *= 4 if slots < LARGE_TABLE else 2
        return slots

    def _new_table(self, slots: int) -> None:
        self._give_table(self.context, slots)
        self._limit = int(FULL * slots) - self._room
        self.context[At.LIMIT] = min(self._limit, self.capacity - self._room)

    def _give_table(self, context: Context, slots: int) -> None:
        """An empty table in the place of the one that there was."""
        context.release(At.TABLE)
        context.hold(At.TABLE, reserve(slots, np.uint64, huge=True))
        context[At.SHIFT] = 65 - slots.bit_length()
        context[At.MASK] = slots - 1

    def close(self) -> None:
        """The search is over; what was found stays."""

    # ── The graph ───────────────────────────────────────────────────────────────────────────

    def edges(
        self, states: int, count: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint16], NDArray[np.uint32]]:
        """The `count` edges of the first states, all of whose successors were found."""
        if self.keys or type(self) is not Native:
            return self._numbered().edges(states, count)
        context = Context()
        self._scratch(context)
        context.array(At.WANTED)[:] = 0
        for at in (At.ROWS, At.TABLE):
            context.hold(at, self.context.array(at))
        for at in (At.SHIFT, At.MASK):
            context[at] = self.context[at]
        source = context.hold(At.SOURCE, reserve(count, np.uint32))
        instance = context.hold(At.INSTANCE, reserve(count, np.uint16))
        target = context.hold(At.TARGET, reserve(count, np.uint32))
        self._calls["edges"](context.address, 0, states)
        assert context[At.EDGES] == count, "a state has as many successors as it had"
        return source, instance, target

    def _numbered(self) -> Native:
        """The states of this engine in a new one, with one table that holds their numbers."""
        made = Native(self.packing, self.checks, 0, keys=False)
        for at in (At.ROWS, At.PARENTS, At.BY):
            made.context.hold(at, self.context.array(at))
        made.capacity = self.capacity
        made.context[At.COUNT] = len(self)
        made.grow()
        return made

    # ── What was found ──────────────────────────────────────────────────────────────────────

    @property
    def taken(self) -> NDArray[np.int64]:
        """For each instance, how often it was taken."""
        return self.context.array(At.TAKEN)[: len(self.packing.ground.instances)]

    @property
    def dropped(self) -> int:
        """The number of successors that were beyond a bound."""
        return self.context[At.DROPPED]

    @property
    def limited(self) -> int:
        """The number of states that were not gone on from, because of the constraint."""
        return self.context[At.LIMITED]

    @property
    def firsts(self) -> dict[str, int]:
        """The first state of each thing that was looked for and found."""
        return self.firsts_of(self.context)

    def firsts_of(self, context: Context) -> dict[str, int]:
        """The first state of each thing that the functions have found, by name, in a context."""
        wanted, firsts = context.array(At.WANTED), context.array(At.FIRSTS)
        names = enumerate(self.checks.names)
        return {n: int(firsts[k]) for k, n in names if not int(wanted[k // 64]) >> k % 64 & 1}


def _used_bits(packing: Packing) -> int:
    """The number of bits of the first word that are used."""
    spread = [p for places in packing.one_hot.values() for p in places]
    places = [p for p in [*packing.places.values(), *spread] if p.word == 0]
    return max((p.shift + p.width for p in places), default=0)


__all__ = ["NO_PARENT", "Checks", "Native", "Unsupported", "why_not"]
