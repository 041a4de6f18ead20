"""
An allocator of resources, the same with a schedule, and that the second refines the first.

After `specifications/allocator/SimpleAllocator.tla`, `SchedulingAllocator.tla` and
`AllocatorRefinement.tla` of the TLA+ examples (Merz), at the constants of their models: three
clients, two resources. Clients ask for sets of resources, get them in portions, and return them;
the scheduling allocator puts those who ask into an order, and gives nobody what somebody before
wants. A schedule there is a sequence; here it is the order of those who are in it, of which there
is one for each sequence. Their refinement is of liveness, too; ours is of what may happen.
"""

from __future__ import annotations

from herdspec import (
    Sort,
    Spec,
    action,
    always,
    empty,
    lemma,
    require,
    sometimes,
    specification,
)
from herdspec.check.refinement.refine import STUTTER, Refinement


class Client(Sort):
    """Who wants resources."""


class Resource(Sort):
    """What only one client can have."""


class SimpleAllocator(Spec):
    """Clients ask for sets of resources, and get what is free."""

    wanted: set[tuple[Client, Resource]] = empty()  # what was asked for, and not given
    held: set[tuple[Client, Resource]] = empty()

    def is_free(self, r: Resource) -> bool:
        """Nobody has it."""
        return all((c, r) not in self.held for c in Client)

    @action
    def request(self, c: Client, s: set[Resource]) -> None:
        """{c}, who has and wants nothing, asks for {s}."""
        require(all((c, r) not in self.wanted and (c, r) not in self.held for r in Resource))
        require(any(r in s for r in Resource))
        for r in Resource:
            if r in s:
                self.wanted.add((c, r))

    @action
    def allocate(self, c: Client, s: set[Resource]) -> None:
        """{c} is given {s}, which is free, and not more than {c} wants."""
        require(any(r in s for r in Resource))
        require(all((c, r) in self.wanted and self.is_free(r) for r in Resource if r in s))
        for r in Resource:
            if r in s:
                self.wanted.discard((c, r))
                self.held.add((c, r))

    @action
    def give_back(self, c: Client, s: set[Resource]) -> None:
        """{c} gives {s} back."""
        require(any(r in s for r in Resource))
        require(all((c, r) in self.held for r in Resource if r in s))
        for r in Resource:
            if r in s:
                self.held.discard((c, r))


@always
def one_holder(s: SimpleAllocator) -> bool:
    """No resource is given to two clients at once (ResourceMutex)."""
    return all(
        not ((a, r) in s.held and (b, r) in s.held)
        for a in Client
        for b in Client
        for r in Resource
        if a != b
    )


@sometimes
def somebody_waits(s: SimpleAllocator) -> bool:
    """A client has something, and another wants it."""
    return any(
        (a, r) in s.held and (b, r) in s.wanted for a in Client for b in Client for r in Resource
    )


SIMPLE_ALLOCATOR = specification(SimpleAllocator, one_holder, somebody_waits)

# ── With a schedule ─────────────────────────────────────────────────────────────────────────


class SchedulingAllocator(Spec):
    """Clients who ask are put into an order, and nobody gets what somebody before wants."""

    unsat: set[tuple[Client, Resource]] = empty()
    alloc: set[tuple[Client, Resource]] = empty()
    scheduled: set[Client] = empty()
    before: set[tuple[Client, Client]] = empty()  # the schedule, as an order

    def wants(self, c: Client) -> bool:
        """The client's request is not yet satisfied."""
        return any((c, r) in self.unsat for r in Resource)

    def to_schedule(self, c: Client) -> bool:
        """The client wants something, and is not in the schedule."""
        return self.wants(c) and c not in self.scheduled

    @action
    def request(self, c: Client, s: set[Resource]) -> None:
        """{c}, who has and wants nothing, asks for {s}."""
        require(all((c, r) not in self.unsat and (c, r) not in self.alloc for r in Resource))
        require(any(r in s for r in Resource))
        for r in Resource:
            if r in s:
                self.unsat.add((c, r))

    @action
    def allocate(self, c: Client, s: set[Resource]) -> None:
        """{c}, who is in the schedule, is given {s}, which nobody before {c} wants."""
        require(any(r in s for r in Resource))
        require(all((c, r) in self.unsat for r in Resource if r in s))
        require(all((d, r) not in self.alloc for d in Client for r in Resource if r in s))
        require(c in self.scheduled)
        require(
            all(
                (d, c) not in self.before or (d, r) not in self.unsat
                for d in Client
                for r in Resource
                if r in s
            )
        )
        for r in Resource:
            if r in s:
                self.unsat.discard((c, r))
                self.alloc.add((c, r))
        if not self.wants(c):
            self.scheduled.discard(c)
            self.before = {(a, b) for a in Client for b in Client if self.stays(a, b, c)}

    def stays(self, a: Client, b: Client, c: Client) -> bool:
        """Without a client, the one is still before the other."""
        return (a, b) in self.before and a != c and b != c

    @action
    def give_back(self, c: Client, s: set[Resource]) -> None:
        """{c} gives {s} back."""
        require(any(r in s for r in Resource))
        require(all((c, r) in self.alloc for r in Resource if r in s))
        for r in Resource:
            if r in s:
                self.alloc.discard((c, r))

    def both_wait(self, a: Client, b: Client) -> bool:
        """Two clients are to be put into the schedule."""
        return self.to_schedule(a) and self.to_schedule(b) and a != b

    @action
    def schedule(self, order: set[tuple[Client, Client]]) -> None:
        """Those who wait are added to the schedule, in some order."""
        require(any(self.to_schedule(c) for c in Client))
        require(all((a, b) not in order or self.both_wait(a, b) for a in Client for b in Client))
        require(
            all(
                ((a, b) in order) != ((b, a) in order)
                for a in Client
                for b in Client
                if self.both_wait(a, b)
            )
        )
        require(
            all(
                (a, b) not in order or (b, c) not in order or (a, c) in order
                for a in Client
                for b in Client
                for c in Client
            )
        )
        self.before = {
            (a, b)
            for a in Client
            for b in Client
            if (a, b) in self.before
            or (a, b) in order
            or (a in self.scheduled and self.to_schedule(b))
        }
        for c in Client:
            if self.wants(c):
                self.scheduled.add(c)


@always
def resources_are_exclusive(s: SchedulingAllocator) -> bool:
    """No resource is given to two clients at once (ResourceMutex)."""
    return all(
        not ((a, r) in s.alloc and (b, r) in s.alloc)
        for a in Client
        for b in Client
        for r in Resource
        if a != b
    )


@always
def who_is_scheduled_wants_something(s: SchedulingAllocator) -> bool:
    """All clients in the schedule have outstanding requests (of AllocatorInvariant)."""
    return all(c not in s.scheduled or s.wants(c) for c in Client)


@always
def nobody_has_what_is_wanted_before(s: SchedulingAllocator) -> bool:
    """No scheduled client has what one before it wants (of AllocatorInvariant)."""
    return all(
        (a, b) not in s.before or not ((b, r) in s.alloc and (a, r) in s.unsat)
        for a in Client
        for b in Client
        for r in Resource
    )


@lemma
def the_schedule_is_an_order(s: SchedulingAllocator) -> bool:
    """The schedule orders just those who are in it."""
    return all(
        ((a, b) not in s.before or (a in s.scheduled and b in s.scheduled and a != b))
        and ((a, b) not in s.before or (b, a) not in s.before)
        for a in Client
        for b in Client
    )


SCHEDULING_ALLOCATOR = specification(
    SchedulingAllocator,
    resources_are_exclusive,
    who_is_scheduled_wants_something,
    nobody_has_what_is_wanted_before,
    the_schedule_is_an_order,
)

# ── The one as the other ────────────────────────────────────────────────────────────────────


def wanted(s: SchedulingAllocator, c: Client, r: Resource) -> bool:
    """What was asked for, and not given."""
    return (c, r) in s.unsat


def held(s: SchedulingAllocator, c: Client, r: Resource) -> bool:
    """What a client has."""
    return (c, r) in s.alloc


REFINEMENT = Refinement(
    concrete=SCHEDULING_ALLOCATOR,
    abstract=SIMPLE_ALLOCATOR,
    fields=(wanted, held),
    actions={
        "request": ("request",),
        "allocate": ("allocate",),
        "give_back": ("give_back",),
        "schedule": (STUTTER,),
    },
)
