"""Flaws: variants of a protocol, each with how it must fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from herdspec.check.verdict import Failure as Failure
from herdspec.language.specification import Specification


@dataclass(frozen=True)
class Flaw:
    """
    A variant, and the failures that it must show at these sizes and with so many faults.

    `switches` are the core's, in the implementation, that make the same of it. Without `sizes`
    there are two elements of each sort; without a `bound` that of naturals is raised as far as need
    be. `within`: the bounds are meant, those of channels, too. `form` is the form of the protocol
    that has the mistake, by its name among the protocol's `variants`; empty for the verified one.
    """

    spec: Specification
    switches: frozenset[str]
    failures: dict[str, Failure]
    faults: int = 2
    sizes: Mapping[str, int] | None = None
    bound: int | None = None
    within: bool = False
    form: str = ""


def variant_name(name: str) -> str:
    """The name of a flaw's spec: "late_join" is `LateJoin`."""
    return "".join(word.title() for word in name.split("_"))
