"""
A lease server that traces what it does, and the tutorial's spec of it: what the suites replay.

The server is small, and right; it can be told to make one mistake. Its clock is a number that its
user moves. Its clients run in the same process, and may write traces of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import getsource
from pathlib import Path
from random import Random
from typing import Any

from herdproof.conformance.traces import TraceLine, Tracer
from herdproof.conformance.traces.line import START
from herdproof.conformance.traces.mapping import TraceMap
from herdspec import from_source
from herdspec.check.conformance.conform import Outcome
from properties.conformance.leases import Client, Lease, Wish

PROMISES = '''
@always
def terms_are_told(s: Lease) -> bool:
    """No client has a number that was not given out."""
    return all(s.token[c] <= s.term for c in Client)


@lemma
def writes_are_of_leases(s: Lease) -> bool:
    """What was written, was written under a lease."""
    return s.written <= s.term
'''
IMPORTS = '"""A lease, as in the tutorial."""\nfrom enum import Enum\n\nfrom herdspec import *\n'
SPEC = "\n\n".join([IMPORTS, *map(getsource, (Client, Wish, Lease)), PROMISES])
"""The same spec as a file of its own, with promises of its own."""


LEASE = from_source(SPEC, "Lease")
PLAIN = TraceMap(LEASE)


class LeaseServer:
    """Leases to one client at a time; every step is traced."""

    def __init__(self, tracer: Tracer, *, term: int = 0, mistake: str = "") -> None:
        self.tracer = tracer
        self.holder: str | None = None
        self.term = term
        self.written = 0
        self.tokens: dict[str, int] = {}
        self.waiting: list[str] = []
        self.mistake = mistake

    def seen(self) -> Mapping[str, Any]:
        """What there is to be seen now."""
        return {"holder": self.holder, "term": self.term, "token": dict(self.tokens)}

    def ask(self, c: str) -> None:
        """A client asks for the lease."""
        self.waiting.append(c)
        self.tracer.step("ask", c=c, seen={"wish": {c: "waits"}})

    def grant(self) -> None:
        """The next one gets it, if nobody has it."""
        if self.waiting and (self.holder is None or self.mistake == "grants twice"):
            c = self.holder = self.waiting.pop(0)
            self.term += 0 if self.mistake == "same term" else 1
            self.tokens[c] = self.term
            self.tracer.step("grant", c=c, seen=self.seen())

    def expire(self) -> None:
        """Its time is over."""
        if self.holder is not None:
            self.holder = None
            self.tracer.step("expire", seen=self.seen())

    def give_back(self, c: str) -> None:
        """A client gives it back."""
        if self.holder == c:
            self.holder = None
            self.tracer.step("give_back", c=c, seen={"holder": None})

    def write(self, c: str) -> None:
        """A client writes; one under an older lease is refused."""
        token = self.tokens.get(c, 0)
        if token and (token >= self.written or self.mistake == "no fence"):
            self.written = token
            self.tracer.step("write", c=c, seen={"written": token})


def run(
    to: Path, seed: int, *, clients: int = 3, steps: int = 60, node: str = "server",
    group: str = "", **more: Any,
) -> Path:  # fmt: skip
    """The trace of a random run."""
    chance = Random(seed)
    names = [f"client-{n}" for n in range(1, clients + 1)]
    with Tracer("Lease", node, to, run="monday", group=group) as tracer:
        server = LeaseServer(tracer, **more)
        asked = list(names)
        for _ in range(steps):
            deed = chance.choice(["ask", "grant", "grant", "expire", "give_back", "write", "write"])
            if deed in ("grant", "expire"):
                getattr(server, deed)()
            elif deed != "ask":
                getattr(server, deed)(chance.choice(names))
            elif asked:
                server.ask(asked.pop(chance.randrange(len(asked))))
    return to


def told(outcome: Outcome) -> str:
    """An outcome, for a test that fails."""
    why = outcome.mismatch.lines if outcome.mismatch else [outcome.reason]
    return "\n".join([f"{outcome.verdict} after {outcome.matched} of {outcome.lines}", *why])


def lines_of(*steps: tuple[Any, ...] | str, node: str = "server", **more: Any) -> list[TraceLine]:
    """Lines of one process: each an action with its arguments, and what was seen."""
    found = []
    for number, step in enumerate([(START,), *steps], start=1):
        action, arguments, seen = (*step, {}, {})[:3]
        found.append(
            TraceLine(
                schema=2,
                protocol="Lease",
                run="r",
                node=node,
                sequence=number,
                time_ns=10 * number,
                action=action,
                arguments=arguments,
                seen=seen,
                place=f"{node}, line {number}",
                **more,
            )
        )
    return found


def ask(c: str) -> tuple[str, dict[str, Any]]:
    """A step."""
    return "ask", {"c": c}


def grant(c: str, **seen: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A step."""
    return "grant", {"c": c}, seen
