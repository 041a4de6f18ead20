"""
The gated world of system B in which consumers' processes come back as other members.

A process is a consumer's core. Who registers again, as another member, is the process of whoever it
says to have stopped: it goes on as that member, under the same consumer id, and the member that it
was is another process from then on. Which registrations a Register names the test says; where they
stopped is what the core remembers. Which epochs it has heard of stays each member's own.

Members are elements: one of which a Register under way says that it is over does not begin anew
before that is read, as nobody could tell its two lives apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import ClassVar

from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore
from herdproof.protocols.central_coordinator.client.former import FORMER_SAID
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings
from herdproof.protocols.central_coordinator.simulated.gated import GatedCentral
from herdproof.protocols.central_coordinator.wire.messages import Register


class GatedProcesses(GatedCentral):
    """Consumers whose processes come back as other members, and say what the test has them say."""

    consumers: ClassVar = ConsumerSettings()
    takes_turns: ClassVar = True
    """A member of which a Register under way says that it is over does not begin anew."""

    def register(self, m: int, b: int, wanted: Collection[int]) -> None:
        """A member connects and registers, as a process that says nothing of the past."""
        self._begin(m, b, wanted, ())

    def register_again(
        self, m: int, b: int, wanted: Collection[int], former: Sequence[int]
    ) -> None:  # fmt: skip
        """The process of these former members connects and registers, as another one."""
        known = {name for n in former for name in self.names_of(n)}
        process = self._process_of(known)
        if process is not None:
            self._expect(process == m or not self.members[process].connection, "it is connected")
            self._exchange(m, process)
        self._begin(m, b, wanted, known)

    def _begin(self, m: int, b: int, wanted: Collection[int], said: Collection[str]) -> None:
        is_named = any(self._names(other, m) for other in range(len(self.members)))
        self._expect(not (is_named and self.takes_turns), "a Register under way says it is over")
        with saying(self.members[m].core, said):
            super().register(m, b, wanted)

    def names_of(self, m: int) -> list[str]:
        """The name of a member's present registration, if its process has been told one."""
        life = (m, self.members[m].life)
        names = [name for name, of in self.registered.items() if of == life]
        return [n for n in names if any(self._knows(k, [n]) for k in range(len(self.members)))]

    def registers(self, m: int) -> list[Register]:
        """Registers of a member that nobody has read yet."""
        connection = self.members[m].connection
        messages = (frame.message for frame in connection.up) if connection else ()
        return [message for message in messages if isinstance(message, Register)]

    def _names(self, m: int, n: int) -> bool:
        """True if a member's Register under way says that another's registration is over."""
        said = {name for register in self.registers(m) for name in register.former or ()}
        return any(self.registered[name][0] == n for name in said if name in self.registered)

    def _process_of(self, names: Collection[str]) -> int | None:
        """The member whose process has been these registrations; None if none has been any."""
        knows = [m for m in range(len(self.members)) if self._knows(m, names)]
        self._expect(len(knows) < 2, "they are several processes'")
        for m in knows:
            is_full = len(self.members[m].core.former.names) == FORMER_SAID
            self._expect(not is_full, "its process may have forgotten some")
        return next(iter(knows), None)

    def _knows(self, m: int, names: Collection[str]) -> bool:
        """True if a member's process has been one of these registrations."""
        return not {*names}.isdisjoint(self.members[m].core.former.names)

    def _exchange(self, m: int, n: int) -> None:
        """Two members are each other's process; the epochs of which each has heard stay its own."""
        one, other = self.members[m], self.members[n]
        one.core, other.core = other.core, one.core
        one.now_ms, other.now_ms = other.now_ms, one.now_ms
        one.commits, other.commits = other.commits, one.commits
        heard, also = one.core.consumption, other.core.consumption
        heard.epoch, also.epoch = also.epoch, heard.epoch


class GatedTwins(GatedProcesses):
    """Consumers that all go by one id; what was said of a member may be read when it is anew."""

    takes_turns = False

    def consumer_id(self, process: int) -> str:
        """One for all of them."""
        del process
        return "c"


@contextmanager
def saying(core: ConsumerCore, names: Collection[str]) -> Iterator[None]:
    """Have a consumer say of its former registrations no more than of these."""
    every = core.former
    said = core.former = copy(every)
    said.names = type(every.names)((n for n in every.names if n in names), every.names.maxlen)
    said._left = {name: left for name, left in every._left.items() if name in names}
    try:
        yield
    finally:
        core.former = every
