"""The election as every command knows it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name
from typing import Any

from herdspec.check.protocol import Protocol


def _later(name: str) -> Callable[[], Any]:
    """What stands under this name (`MODULE:NAME`), read when it is asked for."""
    return partial(resolve_name, f"herdspec.protocols.election.{name}")


PROTOCOL = Protocol(
    "election",
    verified=_later("properties:ELECTION"),
    declared=_later("flaws:AT_ONCE"),
    contract=_later("contract:CONTRACT"),
    within=True,
    refinement=_later("refinement:REFINEMENT"),
    drafted=_later("flaws:DRAFTED"),
    flaws=_later("flaws:FLAWS"),
)
