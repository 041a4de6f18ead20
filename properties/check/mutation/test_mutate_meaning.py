"""Mutants whose steps have no meaning."""

from __future__ import annotations

from herdspec import from_source
from herdspec.check.mutation.mutate import mutate


def test_a_mutant_that_has_no_meaning_is_told_where_its_original_has_none_either() -> None:
    """Where `every value is defined` fails anyway, a further such step is a survivor, and told."""
    spec = from_source(
        """
from typing import Annotated
from herdspec import *

class Desk(Spec):
    calls: Annotated[list[bool], Capacity(1)] = empty()
    busy: bool = False

    @action
    def answer(self) -> None:
        self.busy = self.calls.pop(0)

    @action
    def listen(self) -> None:
        require(len(self.calls) > 0)
        self.busy = self.calls[0]

@always
def it_is_idle(s: Desk) -> bool:
    return not s.busy
""",
        "Desk",
    )
    found = mutate(spec, {}, faults=1)
    told = next(s for s in found.survivors if s.id == "listen: drop `len(self.calls) > 0`")

    assert told.differs == (
        "it looks at a value that is not there, by listen(), the original cannot"
    )
    assert "no further one is noticed" in told.missing
