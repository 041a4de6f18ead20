"""
The part of a gated world that the simulated one and the real one share: a plan's steps by name.

The simulated world (`simulated.py`) and the one on a real ZooKeeper (`real/world.py`) differ in how
a call is served and how a connection breaks; what a broker takes from its inbox, and when, stands
here once. Methods take the broker's index (0-based).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from herdproof.errors import CallerError
from herdproof.protocols.election.elector import Call, OperationAnswered, Resign, Stand
from herdproof.protocols.election.gate import Shell


class Impossible(CallerError):
    """A demand on this world that cannot be met in it now."""


class Gated(Protocol):
    """A broker of such a world: its elector behind its gate."""

    name: str
    shell: Shell
    paused: bool


B = TypeVar("B", bound=Gated)


class GatedElection(ABC, Generic[B]):
    """Brokers whose events and calls wait until a plan takes them."""

    brokers: list[B]

    # ── What users ask for ──────────────────────────────────────────────────────────────────

    def stand(self, b: int) -> None:
        """The owner of the broker wants it to stand."""
        self.brokers[b].shell.give(Stand())

    def resign(self, b: int) -> None:
        """The owner of the broker wants it out."""
        self.brokers[b].shell.give(Resign())

    # ── What the elector does with what its inbox holds ─────────────────────────────────────

    def look(self, b: int) -> None:
        """The broker takes what is not an answer: watch events, and its own wake-ups."""
        shell = self.brokers[b].shell
        while shell.inbox and not isinstance(shell.inbox[0], OperationAnswered):
            shell.take()

    def handle_look(self, b: int) -> None:
        """The broker takes its events up to the answer of its look."""
        self._take_answer(b, Call.LOOK)

    def handle_recall(self, b: int) -> None:
        """The broker takes its events up to the answer of its recall."""
        self._take_answer(b, Call.RECALL)

    def handle_read(self, b: int) -> None:
        """The broker takes its events up to the answer of its reading."""
        self._take_answer(b, Call.READ)

    def handle_create(self, b: int) -> None:
        """The broker takes its events up to the answer of its creation."""
        self._take_answer(b, Call.CREATE)

    def handle_delete(self, b: int) -> None:
        """The broker takes its events up to the answer of its deletion."""
        self._take_answer(b, Call.DELETE)

    # ── What ZooKeeper does with a call ─────────────────────────────────────────────────────

    def serve_look(self, b: int) -> None:
        """The look under way is performed, and answered."""
        self._serve(b, Call.LOOK)

    def serve_recall(self, b: int) -> None:
        """The recall under way is performed, and answered."""
        self._serve(b, Call.RECALL)

    def serve_read(self, b: int) -> None:
        """The reading under way is performed, and answered."""
        self._serve(b, Call.READ)

    def serve_create(self, b: int) -> None:
        """The creation under way is performed, and answered."""
        self._serve(b, Call.CREATE)

    def serve_delete(self, b: int) -> None:
        """The deletion under way is performed, and answered."""
        self._serve(b, Call.DELETE)

    # ── Faults ──────────────────────────────────────────────────────────────────────────────

    def swallow_create(self, b: int) -> None:
        """The creation is done, and the connection breaks before the reply."""
        self._swallow(b, Call.CREATE)

    def swallow_delete(self, b: int) -> None:
        """The deletion is done, and the connection breaks before the reply."""
        self._swallow(b, Call.DELETE)

    def pause(self, b: int) -> None:
        """The broker's process is stopped: whoever plans takes none of its events meanwhile."""
        self.brokers[b].paused = True

    def resume(self, b: int) -> None:
        """The broker's process goes on."""
        self.brokers[b].paused = False

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _serve(self, b: int, call: Call) -> None:
        """Release the call and bring its answer to the inbox."""

    @abstractmethod
    def _swallow(self, b: int, call: Call) -> None:
        """Have the call done, its reply lost and the connection with it."""

    def _take_answer(self, b: int, call: Call) -> None:
        shell = self.brokers[b].shell
        self._expect(b, call)
        number = shell.core.number
        while True:
            event = shell.take()
            if isinstance(event, OperationAnswered) and event.number == number:
                return

    def _expect(self, b: int, call: Call) -> None:
        core = self.brokers[b].shell.core
        if core.call is not call:
            raise Impossible(f"{core.broker} has {core.call.value} under way, not {call.value}")
