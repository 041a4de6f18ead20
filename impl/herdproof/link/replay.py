"""
Stories on the code: the steps that a story took in its spec, taken by the implementation.

Each spec with an implementation is named in `ON_THE_CODE`, flawed ones with the switches that make
the same mistake in the core. The code is taken along in lockstep with that spec, and must be in the
same state after every step; so a story that is replayed on the code is no story about the spec
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from herdspec.check.run import Machine, Step


@dataclass(frozen=True)
class OnTheCode:
    """
    How far the code came along a story: so many `steps`, with these `switches` on.

    `difference` tells where it went elsewhere; it is empty if the code followed.
    """

    steps: int
    switches: frozenset[str]
    difference: tuple[str, ...] = ()

    @property
    def follows(self) -> bool:
        """Whether the code took every step, and arrived where the spec does."""
        return not self.difference

    @property
    def line(self) -> str:
        """In one line."""
        on = ", ".join(sorted(self.switches))
        with_ = f" (with the switch {on})" if on else ""
        if self.follows:
            return f"the code follows, {self.steps} steps{with_}"
        return f"the code goes elsewhere at step {self.steps}{with_}"


Follow = Callable[[str, Machine, Sequence[Step]], OnTheCode]
"""Takes a spec's name, the spec at its sizes and a story; says how far the code came."""


def elect(name: str, machine: Machine, steps: Sequence[Step]) -> OnTheCode:
    """The electors' cores on the simulated ZooKeeper."""
    from herdproof.link.election import Differs, Lockstep
    from herdspec.protocols.election_flaws import DRAFTED, FLAWS

    switches = frozenset[str]()
    if name == "election-drafted":
        switches = DRAFTED.switches
    elif name.startswith("election/"):
        switches = FLAWS[name.removeprefix("election/")].switches
    try:
        lockstep = Lockstep(machine.spec, machine.sizes["Broker"], flaws=switches)
        lockstep.follow(steps)
    except Differs as differs:
        taken = len(differs.lockstep.steps) if differs.lockstep else 0
        return OnTheCode(taken, switches, tuple(str(differs).splitlines()))
    return OnTheCode(len(steps), switches)


ON_THE_CODE: dict[str, Follow] = {"election": elect, "election-drafted": elect}
"""What takes the stories of a spec on the code: by the spec's name, up to a flaw's `/`."""


def on_the_code(name: str, machine: Machine, steps: Sequence[Step]) -> OnTheCode | None:
    """How far the code comes along a story; None for a spec that has no implementation."""
    follow = ON_THE_CODE.get(name.partition("/")[0])
    return follow(name, machine, steps) if follow else None
