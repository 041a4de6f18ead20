"""Code that is one part of its spec is held to it, and the spec plays the others."""

from typing import Any

import pytest

from herdproof.conformance.adapter import Refused, check_adapter
from herdproof.conformance.beside import BesideTheSpec, beside
from herdproof.conformance.walks.walk import walk
from herdspec import Nat, Sort, Spec, action, command, each, require, specification


class Guest(Sort):
    """Somebody who orders."""


class Orders(Spec):
    """Guests order, and a kitchen, which notes how much, serves them."""

    waits: dict[Guest, bool] = each(False)
    served: dict[Guest, bool] = each(False)
    dishes: Nat = 0

    @action(kind=command)
    def order(self, g: Guest) -> None:
        """{g} orders."""
        require(not self.waits[g] and not self.served[g])
        self.waits[g] = True

    @action
    def serve(self, g: Guest) -> None:
        """The kitchen serves {g}."""
        require(self.waits[g])
        self.waits[g] = False
        self.served[g] = True
        self.dishes = self.dishes + 1

    @action
    def go(self, g: Guest) -> None:
        """{g} has eaten, and goes."""
        require(self.served[g])
        self.served[g] = False


ORDERS = specification(Orders)


@beside(ORDERS)
class Kitchens(BesideTheSpec):
    """The kitchen is code, which says whom it serves; guests are the spec's."""

    offered = ("serve",)
    each_counts = 1
    _serves: list[Guest]

    def begin(self, Guest: int) -> None:  # noqa: N803 - a sort
        """A kitchen that has cooked nothing."""
        self._open(Guest=Guest)
        self._dishes = 0
        self._serves = []

    def _serve(self, g: Guest) -> None:
        if not self._s.waits[g]:
            raise Refused
        self._dishes += self.each_counts
        self._serves.append(g)

    def _end_step(self, before: Any) -> None:
        served = {g: before.served[g] or g in self._serves for g in Guest}
        self._s.served, self._serves = served, []

    def _seen(self) -> dict[str, Any]:
        return {"dishes": self._dishes, "served": dict(self._s.served)}


class Miscounted(Kitchens):
    """A kitchen that notes nothing."""

    each_counts = 0


class Silent(Kitchens):
    """A kitchen that cooks, and tells nobody."""

    def _serve(self, g: Guest) -> None:
        super()._serve(g)
        self._serves.clear()


def test_code_beside_the_spec_goes_where_the_spec_goes() -> None:
    """Guests eat what the code has served them, and go; nobody else has to be written."""
    check_adapter(ORDERS, Kitchens)

    found = walk(ORDERS, Kitchens, {"Guest": 2}, runs=10, steps=20)

    assert found.holds, found.difference or found.unknown
    assert {"order", "serve", "go"} <= {name for name, n in found.report.taken.items() if n}


@pytest.mark.parametrize("wrong", [Miscounted, Silent])
def test_what_the_code_does_and_says_is_its_own(wrong: type[Kitchens]) -> None:
    """The copy of the spec makes good neither what the code keeps nor what it answers."""
    found = walk(ORDERS, wrong, {"Guest": 2}, runs=10, steps=20)

    assert found.difference is not None
    assert "serve" in str(found.difference)


def test_code_beside_the_spec_is_put_back_with_it() -> None:
    """A snapshot has the copy of the spec in it, and not the machine that takes its steps."""
    kitchen = Kitchens()
    kitchen.begin(Guest=1)
    before = kitchen.snapshot()

    kitchen._dishes = 7
    kitchen.restore(before)

    assert kitchen.observe()["dishes"] == 0
    assert b"_machine" not in before
