"""What a variant has of its spec: translations of those texts that mean the same in both."""

from __future__ import annotations

import sys
from typing import Any

from herdspec import Specification, from_source
from herdspec.check.digest import digest
from herdspec.language import graph as g
from herdspec.language.specification import of_class
from herdspec.language.types import NAT
from herdspec.protocols.election.flaws import FLAWS
from properties.language.tiny import tiny

BODY = "require(all(self.marked(c) for c in Node))\nself.n = 1"
MORE = '''
    @action
    def other(self) -> None:
        """Something else."""
        require(any(self.on[c] for c in Node))
        self.n = LIMIT

def never(self: Tiny, a: Node) -> bool:
    """No node is marked."""
    return False
'''


def two_actions() -> Specification:
    """A spec with an action that calls a helper, and one that reads a constant."""
    return from_source(tiny(BODY) + MORE, "Tiny")


def module_of(spec: Specification) -> Any:
    """The module that its text is."""
    return sys.modules[spec.state.__module__]


def read_from_the_start(spec: Specification) -> Specification:
    """The same spec, of which nothing was known before."""
    made = of_class(spec.state, spec.names)
    return made.with_properties(*(p.python for p in spec.properties))


def test_each_flaw_of_the_election_is_what_its_functions_say() -> None:
    """A flaw, all its properties included, is the spec that it is if nothing was known before."""
    for name, flaw in FLAWS.items():
        assert digest(flaw.spec) == digest(read_from_the_start(flaw.spec)), name


def test_what_a_variant_does_not_change_is_translated_once() -> None:
    """An action of which nothing is replaced is the one of the spec; who calls that is not."""
    spec = two_actions()

    variant = spec.replace("Variant", marked=module_of(spec).never)

    assert variant.action("other").guard is spec.action("other").guard
    assert variant.action("act").guard is not spec.action("act").guard


def test_what_was_seen_otherwise_is_translated_again() -> None:
    """A variant that is made when a constant is another one has that, as its plain Python has."""
    spec = two_actions()
    module_of(spec).LIMIT = 3

    variant = spec.drop("Variant", "act")

    assert variant.action("other").updates["n"] is g.const(NAT, 3)
    assert spec.action("other").updates["n"] is g.const(NAT, 2)
