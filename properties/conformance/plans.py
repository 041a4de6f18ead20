"""
A spec whose parameters are too many to list, and code for it, for suites to share.

A leader plans which member has which part; members come and go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar

from herdproof.conformance.adapter import Adapter, Refused
from herdspec import Sort, Spec, UpTo, action, each, require
from herdspec.language.specification import specification

Number = Annotated[int, UpTo(5_000)]


class Part(Sort):
    """What is shared out."""


class Member(Sort):
    """Who has parts."""


class Plans(Spec):
    """Each part is somebody's who is here; the plan has a number, which grows."""

    here: dict[Member, bool] = each(False)
    owner: dict[Part, Member | None] = each(None)
    number: Number = 0

    @action
    def join(self, m: Member) -> None:
        """{m} comes."""
        require(not self.here[m])
        self.here[m] = True

    @action
    def leave(self, m: Member) -> None:
        """{m} goes, and has nothing any more."""
        require(self.here[m])
        self.here[m] = False
        self.owner = {p: None if self.owner[p] == m else self.owner[p] for p in Part}

    @action
    def plan(self, number: Number, whom: dict[Part, Member]) -> None:
        """The plan {number} gives each part to a member that is here."""
        require(number > self.number)
        require(all(self.here[whom[p]] for p in Part))
        self.number = number
        self.owner = {p: whom[p] for p in Part}


PLANS = specification(Plans)


class Planner(Adapter):
    """Plans round robin; what it plans, and under which number, is its own choice."""

    flaws: ClassVar[Collection[str]] = ()
    offered = ("plan",)
    chosen: ClassVar[Mapping[str, Collection[str]]] = {"plan": ("number", "whom")}

    def begin(self, Part: int, Member: int) -> None:  # noqa: N803 - names of sorts
        """So many parts, and members to come."""
        self.owner: list[int | None] = [None] * Part
        self.most = Member
        self.members = list[int]()
        self.number = 0

    def join(self, m: Member) -> None:
        """A member comes."""
        self.members.append(m.index)

    def leave(self, m: Member) -> None:
        """A member goes."""
        if "keeps_the_dead" not in self.flaws:
            self.members.remove(m.index)
        self.owner = [None if who == m.index else who for who in self.owner]

    def plan(self) -> tuple[int, dict[Part, Member]]:
        """A new plan."""
        if not self.members:
            raise Refused("nobody is here")
        self.number += 1
        count = len(self.members)
        owners = [self.members[k % count] for k in range(len(self.owner))]
        self.owner = [*owners]
        return self.number, {Part(k): Member(who) for k, who in enumerate(owners)}

    def observe(self) -> dict[str, Any]:
        """All but who is here."""
        owners = [None if who is None else Member(who) for who in self.owner]
        return {"owner": {Part(k): who for k, who in enumerate(owners)}, "number": self.number}


class Followers(Planner):
    """Does what it is told: the test draws the plans."""

    chosen: ClassVar[Mapping[str, Collection[str]]] = {}

    def plan(self, number: int, whom: dict[Part, Member]) -> None:  # type: ignore[override]
        """The plan that the test has drawn."""
        new = [whom[Part(k)].index for k in range(len(self.owner))]
        if number <= self.number or not {*new} <= {*self.members}:
            raise Refused("not that one")
        self.number, self.owner = number, [*new]
        if "last_is_lost" in self.flaws and len({*new}) > 2:
            self.owner[-1] = None
