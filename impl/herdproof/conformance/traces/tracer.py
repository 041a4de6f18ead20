"""
The tracer: any code writes what it does, one line for each step, in the names of its spec.

    tracer = Tracer("Lease", "server", "server.ndjson", run="monday")
    tracer.step("grant", c="client-3", seen={"holder": "client-3", "term": 7})

Every line is one write, flushed before `step` returns: a process that is killed loses nothing of
what it did, except that its last line may be cut off, which the reader names as such. There is no
`fsync`: a machine that loses power can lose lines. A missing line is noticed by its number; one
that cannot be written (the disk is full) is left out, and what is traced goes on.

Call `step` where the step has been decided, and before anything that it leads to is sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO, cast

import msgspec

from herdproof.conformance.traces.chained import Chain
from herdproof.conformance.traces.file import TraceFile
from herdproof.conformance.traces.line import SCHEMA, START, After, TraceError, TraceLine
from herdproof.conformance.traces.repeated import Repeats

Clock = Callable[[], int]
"""Nanoseconds since 1970, as all nodes of a run count them."""


def open_trace(path: Path) -> TextIO:
    """
    Open a trace to append to, one write per line; a last line that was cut off is ended first.

    The caller closes it. A line that cannot be written later is left out, and that is logged.
    """
    return cast(TextIO, TraceFile(path))


class Tracer:
    """
    Writes the trace of one process of a node; may be called by any thread.

    `protocol` is the spec's name. `to` is a file, which is appended to, or a stream, which several
    tracers may share. `run` names what belongs together: give it to all processes of a run. `role`
    and `group` are written in every line, unless `step` says another group. `observe` returns
    what is seen of the spec's fields now; it is asked at each step that does not say what is seen.

    A process's first line is written at once: who traces nothing else is known to be there. If it
    `repeats`, each line tells again the one before it: of the same group, or of none. Traces are
    longer by three quarters then, and a single line that is lost is known all the same. If it is
    `chained`, each line says which one was the last of the same group, or of none: then a line that
    is lost leaves nothing open of other groups.
    """

    def __init__(
        self, protocol: str, node: str, to: TextIO | Path | str, *, run: str = "", role: str = "",
        group: str = "", observe: Callable[[], Mapping[str, Any]] | None = None,
        clock: Clock = time.time_ns, repeats: bool = False, chained: bool = False,
    ) -> None:  # fmt: skip
        self._protocol, self._node, self._run = protocol, node, run
        self._role, self._group = role, group
        self._observe = observe
        self._clock = clock
        self._lock = threading.Lock()
        self._sequence = 0
        self._repeats = Repeats() if repeats else None
        self._chained = chained
        self._chain: Chain | None = None
        self._own = open_trace(Path(to)) if isinstance(to, str | Path) else None
        self._stream: TextIO = self._own or to  # type: ignore[assignment]
        self._write(START, {}, None, group, {})

    def step(
        self, action: str, /, *, seen: Mapping[str, Any] | None = None, group: str | None = None,
        since_ns: int = 0, sent: Sequence[str] = (), received: Sequence[str] = (), zxid: int = 0,
        arguments: Mapping[str, Any] | None = None, **named: Any,
    ) -> None:  # fmt: skip
        """
        Write a step that was taken: an action of the spec, with arguments by parameter.

        `seen` are fields of the spec as they are after the step, all or some; of a map, all entries
        or some. Elements of sorts are written by the names that the code has for them. `since_ns`
        says from which moment on the step may have been taken, where it was taken by somebody else
        (a request whose answer has come). `sent` and `received` are ids of messages, `zxid` its
        place among the steps of all nodes that have one: they order lines where clocks do not.
        An argument with the name of one of these goes into `arguments`.
        """
        more = {"since_ns": since_ns, "sent": tuple(sent), "received": tuple(received),
                "zxid": zxid}  # fmt: skip
        given = {**(arguments or {}), **named}
        self._write(action, given, seen, self._group if group is None else group, more)

    def _write(
        self, action: str, arguments: Mapping[str, Any], seen: Mapping[str, Any] | None,
        group: str, more: Mapping[str, Any],
    ) -> None:  # fmt: skip
        with self._lock:
            if seen is None:
                seen = {} if self._observe is None or action == START else self._observe()
            number, time_ns = self._sequence + 1, self._clock()
            try:
                line = TraceLine(
                    schema=SCHEMA, protocol=self._protocol, run=self._run, node=self._node,
                    role=self._role, group=group, sequence=number, time_ns=time_ns, action=action,
                    arguments=plain(arguments), seen=plain(seen),
                    after=self._after(group, number, time_ns), **more,
                )  # fmt: skip
                text = (line if self._repeats is None else self._repeats.added(line)).written()
            except (TypeError, ValueError, msgspec.MsgspecError) as problem:
                raise TraceError(
                    f"the step {action} of {self._node} cannot be written ({problem}): give plain"
                    f" values, and names for elements"
                ) from problem
            self._sequence += 1
            self._stream.write(text + "\n")
            self._stream.flush()

    def _after(self, group: str, number: int, time_ns: int) -> After | None:
        """The line that this one comes after, if each is to say that."""
        if not self._chained:
            return None
        if self._chain is None:
            self._chain = Chain(time_ns)
        return self._chain.after(group, number)

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


_PLAIN = frozenset({str, int, bool, float, type(None)})


def plain(value: Any) -> Any:
    """A value as JSON can hold it: a map whose keys are no texts becomes a list of pairs."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        pairs = [(plain(key), plain(inner)) for key, inner in value.items()]
        if all(isinstance(key, str) for key, _ in pairs):
            return dict(pairs)
        return [list(pair) for pair in pairs]
    if isinstance(value, set | frozenset):
        return sorted((plain(inner) for inner in value), key=repr)
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return msgspec.to_builtins(value)
