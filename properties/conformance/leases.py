"""
The tutorial's lease: its spec, code without a network, and an adapter, for suites to share.

`Leases` is right; `flaws` of a subclass make it wrong in one way each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, ClassVar

from herdproof.conformance.adapter import Adapter, CannotLoad, Refused
from herdspec import (
    Nat,
    Sort,
    Spec,
    action,
    command,
    each,
    lemma,
    require,
    sometimes,
    step,
    weak,
)
from herdspec.language.specification import specification


class Client(Sort):
    """Whoever wants to write."""


class Wish(Enum):
    """What a client has asked for."""

    NONE = "none"
    WAITS = "waits"
    GRANTED = "granted"


class Lease(Spec):
    """A server leases the right to write, to one client at a time."""

    wish: dict[Client, Wish] = each(Wish.NONE)
    holder: Client | None = None  # who has the lease, as the server knows
    term: Nat = 0  # the number of the latest lease
    token: dict[Client, Nat] = each(0)  # the number of a client's lease; 0: it had none yet
    written: Nat = 0  # the number that the last write brought along

    @action(kind=command)
    def ask(self, c: Client) -> None:
        """{c} asks for the lease."""
        require(self.wish[c] == Wish.NONE)
        self.wish[c] = Wish.WAITS

    @action(fair=weak)
    def grant(self, c: Client) -> None:
        """The server leases to {c}, under a new number."""
        require(self.holder is None)
        require(self.wish[c] == Wish.WAITS)
        self.wish[c] = Wish.GRANTED
        self.holder = c
        self.term += 1
        self.token[c] = self.term

    @action
    def expire(self) -> None:
        """The lease expires, and its holder, which is paused, does not know."""
        require(self.holder is not None)
        self.holder = None

    @action
    def give_back(self, c: Client) -> None:
        """{c} gives its lease back."""
        require(self.holder == c)
        self.holder = None

    @action
    def write(self, c: Client) -> None:
        """{c} writes, and brings along the number of its lease."""
        require(self.token[c] > 0 and self.token[c] >= self.written)
        self.written = self.token[c]


@step
def writes_never_go_back(before: Lease, after: Lease) -> bool:
    """A write under an older lease never follows one under a newer lease."""
    return before.written <= after.written


@lemma
def nobody_is_ahead(s: Lease) -> bool:
    """No client's number, and none that was written, is higher than the latest lease's."""
    return s.written <= s.term and all(s.token[c] <= s.term for c in Client)


@sometimes
def somebody_is_late(s: Lease) -> bool:
    """A client has a lease of old, while there is a newer one."""
    return any(s.token[c] > 0 and s.token[c] < s.term for c in Client)


LEASE = specification(Lease, writes_never_go_back, nobody_is_ahead, somebody_is_late)


class LeaseCore:
    """Grants a lease to one client at a time, first come, first served; `turn` grants."""

    def __init__(self, clients: int, flaws: Collection[str] = ()) -> None:
        self.flaws = flaws
        self.queue: list[int] = []
        self.asked: set[int] = set()
        self.holder: int | None = None
        self.term = 0
        self.written = 0
        self.tokens = [0] * clients

    def ask(self, client: int) -> bool:
        """A client asks; False if it has before."""
        if client in self.asked:
            return False
        self.asked.add(client)
        self.queue.append(client)
        return True

    def turn(self) -> None:
        """Whatever the server has to do by itself."""
        if self.holder is None and self.queue and "never_grants" not in self.flaws:
            self.holder = self.queue.pop(0)
            self.term += 1
            self.tokens[self.holder] = self.term

    def expire(self) -> bool:
        """The lease is over; False if nobody has it."""
        over, self.holder = self.holder is not None, None
        return over

    def give_back(self, client: int) -> bool:
        """A client gives its lease back; False if it has none."""
        if self.holder != client and "anyone_gives_back" not in self.flaws:
            return False
        self.holder = None
        return True

    def write(self, client: int) -> bool:
        """A client writes; False if its number is not good enough."""
        token = self.tokens[client]
        old, new = (
            (str(self.written), str(token)) if "text" in self.flaws else (self.written, token)
        )
        if token == 0 or (old > new and "no_fence" not in self.flaws):  # type: ignore[operator]
            return False
        self.written = token
        return True

    def restart(self) -> None:
        """The server starts anew; it keeps its numbers."""
        if "forgets" in self.flaws:
            self.term = 0


class Leases(Adapter):
    """The core, held to the spec; `wish` is not seen."""

    flaws: ClassVar[Collection[str]] = ()
    offered = ("ask", "give_back", "write")
    silent = ("grant",)
    pumped = True
    disturbed: ClassVar[Mapping[str, Collection[str]]] = {"restart": ()}

    def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
        """So many clients."""
        self.core = LeaseCore(Client, self.flaws)

    def ask(self, c: Client) -> None:
        """A client asks."""
        self._done(self.core.ask(c.index))

    def expire(self) -> None:
        """The lease is over."""
        self._done(self.core.expire())

    def give_back(self, c: Client) -> None:
        """A client gives its lease back."""
        self._done(self.core.give_back(c.index))

    def write(self, c: Client) -> None:
        """A client writes."""
        self._done(self.core.write(c.index))

    def restart(self) -> None:
        """The server starts anew."""
        self.core.restart()

    def pump(self) -> None:
        """The server has its turn."""
        self.core.turn()

    def _done(self, did: bool) -> None:
        if not did:
            raise Refused

    def observe(self) -> dict[str, Any]:
        """All but what clients wish."""
        core = self.core
        return {
            "holder": None if core.holder is None else Client(core.holder),
            "term": core.term, "written": core.written,
            "token": {Client(i): token for i, token in enumerate(core.tokens)},
        }  # fmt: skip

    def snapshot(self) -> Any:
        """What the core is like."""
        core = self.core
        return [*core.queue], {*core.asked}, core.holder, core.term, core.written, [*core.tokens]

    def restore(self, snapshot: Any) -> None:
        """Be like that again."""
        queue, asked, holder, term, written, tokens = snapshot
        core = self.core
        core.queue, core.asked, core.tokens = [*queue], {*asked}, [*tokens]
        core.holder, core.term, core.written = holder, term, written

    def load(self, state: Lease) -> None:
        """Be in a state of the spec."""
        core = self.core
        core.holder = None if state.holder is None else state.holder.index
        core.term, core.written = state.term, state.written
        core.tokens = [state.token[c] for c in sorted(state.token, key=lambda c: c.index)]
        wishes = {c.index: wish for c, wish in state.wish.items()}
        core.asked = {i for i, wish in wishes.items() if wish is not Wish.NONE}
        core.queue = [i for i, wish in sorted(wishes.items()) if wish is Wish.WAITS]
        if any(core.tokens[i] == 0 for i, wish in wishes.items() if wish is Wish.GRANTED):
            raise CannotLoad("who was granted the lease has its number")
