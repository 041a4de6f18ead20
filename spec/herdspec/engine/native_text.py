"""
LLVM's assembly language, written function by function.

`Code` is one function in the making: a list of instructions, with names handed out by counting.
What changes in a loop is a *variable*, a cell of the stack that LLVM's first pass turns into a
register; so loops and conditions can be written as Python's `with` blocks, one inside the other.
Plain text, because making and printing objects for each instruction took longer than LLVM itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

Value = str
"""An operand: the name of a result (`%12`) or a constant (`true`, `5`)."""


class Code:
    """
    A function with `i64` parameters (addresses too) that returns an `i64`.

    Every method that emits an instruction with a result returns its name.
    """

    def __init__(self, name: str, *parameters: str) -> None:
        self.name = name
        self.parameters = parameters
        self._cells: list[str] = []
        self._lines: list[str] = []
        self._count = 0

    def __str__(self) -> str:
        """The function's text."""
        given = ", ".join(f"i64 %{p}" for p in self.parameters)
        end = ["  unreachable"] if self._lines[-1].endswith(":") else []
        lines = ["entry:", *self._cells, "  br label %start", "start:", *self._lines, *end]
        body = "\n".join(lines)
        return f"define i64 @{self.name}({given}) nounwind {{\n{body}\n}}\n"

    # ── Instructions ────────────────────────────────────────────────────────────────────────

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def new(self, instruction: str) -> Value:
        """An instruction with a result."""
        name = f"%{self._name('t')}"
        self._lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """An instruction without a result."""
        self._lines.append(f"  {instruction}")

    def op(self, operator: str, a: Value, b: Value | int, kind: str = "i64") -> Value:
        """An arithmetic or logical operator, or a comparison (`icmp eq`)."""
        return self.new(f"{operator} {kind} {a}, {b}")

    def wide(self, a: Value) -> Value:
        """A truth as the number 0 or 1."""
        if a in ("true", "false"):
            return str(int(a == "true"))
        return self.new(f"zext i1 {a} to i64")

    def choose(self, test: Value, a: Value | int, b: Value | int, kind: str = "i64") -> Value:
        """One of two values, both of which are computed."""
        return self.new(f"select i1 {test}, {kind} {a}, {kind} {b}")

    def call(self, name: str, *arguments: Value | int) -> Value:
        """Another function of this module."""
        given = ", ".join(f"i64 {a}" for a in arguments)
        return self.new(f"call i64 @{name}({given})")

    def give(self, value: Value | int) -> None:
        """The function's result; what follows is unreachable."""
        self.do(f"ret i64 {value}")
        self.label(self._name("L"), falls=False)

    # ── Memory: addresses are numbers, offsets count elements ───────────────────────────────

    def at(self, address: Value, offset: Value | int, bytes_each: int) -> Value:
        """The address of an element."""
        kind = f"[{bytes_each} x i8]"
        pointer = self.new(f"inttoptr i64 {address} to ptr")
        return self.new(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")

    def load(self, address: Value, offset: Value | int, bits: int = 64) -> Value:
        """An element of an array of numbers this wide, as an `i64`."""
        found = self.new(f"load i{bits}, ptr {self.at(address, offset, bits // 8)}")
        return found if bits == 64 else self.new(f"zext i{bits} {found} to i64")

    def store(
        self, address: Value, offset: Value | int, value: Value | int, bits: int = 64
    ) -> None:
        """Set an element of an array of numbers this wide."""
        if bits != 64:
            value = self.new(f"trunc i64 {value} to i{bits}")
        self.do(f"store i{bits} {value}, ptr {self.at(address, offset, bits // 8)}")

    def prefetch(self, address: Value, offset: Value | int, bytes_each: int) -> None:
        """Ask the memory for an element that is wanted soon."""
        pointer = self.at(address, offset, bytes_each)
        self.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    # ── Variables ───────────────────────────────────────────────────────────────────────────

    def variable(self, value: Value | int) -> Value:
        """A new variable, set here."""
        name = f"%{self._name('v')}"
        self._cells.append(f"  {name} = alloca i64")
        self.set(name, value)
        return name

    def get(self, variable: Value) -> Value:
        """A variable's value now."""
        return self.new(f"load i64, ptr {variable}")

    def set(self, variable: Value, value: Value | int) -> None:
        """Give a variable another value."""
        self.do(f"store i64 {value}, ptr {variable}")

    def increase(self, variable: Value, by: Value | int) -> None:
        """Add to a variable."""
        self.set(variable, self.op("add", self.get(variable), by))

    # ── Control ─────────────────────────────────────────────────────────────────────────────

    def label(self, name: str, falls: bool = True) -> None:
        """Begin a block; the one before it falls through to it."""
        if falls:
            self.do(f"br label %{name}")
        self._lines.append(f"{name}:")

    @contextmanager
    def when(self, test: Value) -> Iterator[None]:
        """Emit a branch: what is emitted inside happens only where the test holds."""
        inside, after = self._name("L"), self._name("L")
        self.do(f"br i1 {test}, label %{inside}, label %{after}")
        self.label(inside, falls=False)
        yield
        self.label(after)

    @contextmanager
    def repeat(self) -> Iterator[str]:
        """Emit a loop around what is emitted inside; yields the label to `leave` it by."""
        top, after = self._name("L"), self._name("L")
        self.label(top)
        yield after
        self.do(f"br label %{top}")
        self.label(after, falls=False)

    def leave(self, label: str, test: Value) -> None:
        """Leave a `repeat` where the test holds."""
        on = self._name("L")
        self.do(f"br i1 {test}, label %{label}, label %{on}")
        self.label(on, falls=False)

    @contextmanager
    def loop(self, low: Value | int, high: Value | int) -> Iterator[Value]:
        """For each number from `low` to before `high`, which is yielded."""
        number = self.variable(low)
        with self.repeat() as done:
            present = self.get(number)
            self.leave(done, self.op("icmp sge", present, high))
            yield present
            self.increase(number, 1)
