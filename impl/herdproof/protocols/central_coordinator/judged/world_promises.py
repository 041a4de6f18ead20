"""
Promises that a run is held to: the contract's, this protocol's own, and the assignor's.

The fields that are filled (`world_fields.py`, `world_end.py`) are named here, and those that are
not: a field that the contract has and this does not name is a mistake, of which a test tells.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from herdproof.consuming.assignment import shares_are_even
from herdproof.consuming.offsets import Offset
from herdspec.check.observation.observed import Observed
from herdspec.check.observation.watches import JUDGED, watches_of
from herdspec.language.specification import Specification
from herdspec.language.surface import Expectation
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR, OF_ITS_OWN
from herdspec.protocols.central_coordinator.values import Asked, Phase
from herdspec.protocols.contract.properties import CONTRACT
from herdspec.protocols.contract.spec import Stage

INITIAL: Mapping[str, Any] = {
    "epoch": 0, "elected": None, "term": 0, "author": None, "generation": 0, "owner": None,
    "heeded": 0, "current": False, "consumes": False, "position": 0, "resolved": False,
    "finished": 0, "reported": 0, "committing": 0, "accepted": 0, "storing": 0, "committed": 0,
}  # fmt: skip
"""The fields that are filled all the time, as they are before anything has happened."""

AT_THE_END: Mapping[str, Any] = {
    "exists": False, "known": False, "interest": False, "live": False, "informed": False,
    "stage": Stage.OPEN,
}  # fmt: skip
"""The fields that are filled when everything has been quiet for long enough."""

NOT_FILLED: Mapping[str, str] = {
    "told": "whom a member listens to shows in whom it heeds, and no promise speaks of it",
    "begun": "that a member has said that it has begun: no promise speaks of it",
}

SETTLES = next(p for p in CONTRACT.properties if p.name == "settles")
assert SETTLES.goal is not None
SETTLED = replace(SETTLES, expectation=Expectation.ALWAYS, formula=SETTLES.goal, goal=None)
"""Goal of `settles`, as a property that must hold at a run's end."""

PROMISES = [p for p in CONTRACT.properties if p.expectation in JUDGED and not p.lemma]
WATCHES = watches_of(CONTRACT, {**INITIAL, **AT_THE_END}, [*PROMISES, SETTLED])

OWN: Mapping[str, Any] = {
    "election.leads": False, "books": None, "asked": Asked.NONE, "phase": Phase.IDLE,
    "given": False, "begin": 0, "owner": None, "orphan": False, "committed": 0,
}  # fmt: skip
"""
The fields of what this protocol promises besides, before anything has happened.

Two stay as they are: that owners are not written yet (`phase`), or no longer anybody's (`orphan`),
shows in whom ZooKeeper names.
"""

OWN_PROMISES = [p for p in CENTRAL_COORDINATOR.properties if p.name in {q.name for q in OF_ITS_OWN}]
OWN_WATCHES = watches_of(CENTRAL_COORDINATOR, OWN, OWN_PROMISES)

SHARES_ARE_EVEN = shares_are_even.__name__

PROMISED: Mapping[str, str] = {
    **{p.name: p.sentence for p in (*PROMISES, SETTLED, *OWN_PROMISES)},
    SHARES_ARE_EVEN: shares_are_even.__doc__ or "",
}
"""By name, what is promised."""

AT_AN_END = frozenset({"complete", SETTLED.name, SHARES_ARE_EVEN})
"""The promises that only the end of a run can judge."""


def not_named(spec: Specification) -> set[str]:
    """The fields of a contract that are neither filled nor said not to be."""
    return {f.name for f in spec.fields} - {*INITIAL, *AT_THE_END, *NOT_FILLED}


class PromiseBroken(Exception):
    """A promise is broken: which, and how."""

    def __init__(self, promise: str, how: str) -> None:
        super().__init__(how)
        self.promise = promise


def judge(seen: Observed, watches: Collection[str], *told: object) -> None:
    """The step in hand is over; `PromiseBroken`, if it breaks a promise that is watched."""
    seen.step()
    for found in seen.broken():
        if found.promise.name in watches:
            of = ", ".join(f"{name} = {shown(element)}" for name, element in found.of.items())
            how = f"{' '.join(map(shown, told))}: {found.promise.name}, of {of or 'all'}."
            raise PromiseBroken(found.promise.name, how)


def shown(what: object) -> str:
    """A process, a partition, an offset, or a word, as a story tells it."""
    match what:
        case (str(topic), str(number)):
            return f"{topic}-{number}"
        case Offset(topic, number, offset):
            return f"{topic}-{number}:{offset}"
    return str(getattr(what, "name", what))
