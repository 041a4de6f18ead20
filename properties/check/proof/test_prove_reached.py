"""What a proof knows of parameters, and of states that no run reaches."""

from __future__ import annotations

from herdspec import from_source
from herdspec.check.proof.prove import prove


def test_the_numbers_of_a_map_that_is_a_parameter_are_within_its_type() -> None:
    """A map of limits that is given at the start, or later, has none that is negative or large."""
    spec = from_source(
        """
from typing import Annotated
from herdspec import *

Few = Annotated[Nat, UpTo(3)]

class T(Sort): ...

class Quota(Spec):
    limit: dict[T, Few] = each(0)
    used: dict[T, Nat] = each(0)

    @initial
    def begin(self, limit: dict[T, Few]) -> None:
        self.limit = limit

    @action
    def use(self, t: T) -> None:
        require(self.used[t] < self.limit[t])
        self.used[t] += 1

    @action
    def renew(self, limit: dict[T, Few]) -> None:
        self.used = {t: 0 for t in T}
        self.limit = limit

@always
def within(s: Quota) -> bool:
    return all(s.used[t] <= s.limit[t] <= 3 for t in T)
""",
        "Quota",
    )

    assert prove(spec).proved


def test_where_every_state_was_explored_what_is_not_inductive_is_unreachable() -> None:
    """A spec without sorts and faults is explored whole; a cut says within what it was looked."""
    text = """
from typing import Annotated
from herdspec import *

class Pair(Spec):
    one: bool = False
    two: bool = False
    sent: Annotated[list[bool], Capacity(1)] = empty()

    @action
    def swap(self) -> None:
        self.two = self.one

    @action
    def send(self) -> None:
        {guard}
        self.sent.append(True)

@always
def two_is_off(s: Pair) -> bool:
    return not s.two
"""
    whole, cut = (
        prove(from_source(text.format(guard=guard), "Pair"), look=2).reached["two_is_off"]
        for guard in ("require(len(self.sent) == 0)", "pass")
    )

    assert whole.sentence.startswith("this state is unreachable: exploring every state there is")
    assert cut.sentence.endswith("do not break the promise within 1 message in sent")


def test_a_run_to_a_counterexample_has_no_more_faults_than_the_budget() -> None:
    """A promise that only a fault breaks is not broken where no fault may happen."""
    spec = from_source(
        """
from herdspec import *

class Glass(Spec):
    whole: bool = True

    @action(kind=fault)
    def drop(self) -> None:
        self.whole = False

@always
def it_is_whole(s: Glass) -> bool:
    return s.whole
""",
        "Glass",
    )

    assert prove(spec, look=0).reached["it_is_whole"].story is None
    assert prove(spec, look=1).reached["it_is_whole"].story is not None
