"""No beginning: whatever is said of it is said of nothing, so it must not be said to hold."""

from herdspec import Spec, action, always, axiom, initial, require


class ContradictoryStart(Spec):
    """
    No choice makes an initial state.

    never_on: holds
    dead: switch
    """

    on: bool = False

    @initial
    def begin(self) -> None:
        require(self.on)

    @action
    def switch(self) -> None:
        self.on = True


@always
def never_on(s: ContradictoryStart) -> bool:
    return not s.on


class ContradictoryAxiom(Spec):
    """
    An axiom that no initial state keeps.

    ever_off: holds
    dead: switch
    """

    on: bool = False
    odd: bool = False

    @action
    def switch(self) -> None:
        self.on = True


@axiom
def it_is_odd(s: ContradictoryAxiom) -> bool:
    return s.odd


@always
def ever_off(s: ContradictoryAxiom) -> bool:
    return not s.on
