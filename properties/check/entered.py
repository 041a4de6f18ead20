"""Protocols that are installed for as long as a test takes, in place of all others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from herdproof.protocols import implementation as implementations
from herdspec.check import protocol as protocols
from herdspec.check.protocol import Protocol
from herdspec.check.verify import Plan


@dataclass(frozen=True)
class Entry:
    """What `importlib.metadata` tells of an entry point."""

    name: str
    made: Any
    value: str = "properties.check.entered:made"

    def load(self) -> Any:
        """What it names."""
        return self.made


@contextmanager
def entered(**made: Any) -> Iterator[None]:
    """By name, the protocols and implementations that there are."""
    known = {name: Entry(name, found) for name, found in made.items()}
    caches: Any = (
        protocols.entry, implementations.implementation, implementations.auditors,
        implementations.simulators,
    )  # fmt: skip
    for cache in caches:
        cache.cache_clear()
    with patch.object(protocols, "entries", lambda: known):
        yield
    for cache in caches:
        cache.cache_clear()


def planned(plan: Plan) -> Protocol:
    """A protocol with this plan, whatever the scale."""
    return Protocol(plan.protocol, lambda: plan.specs[plan.verified], plan=lambda _: plan)
