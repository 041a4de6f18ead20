"""The election as every command knows it."""

from __future__ import annotations

from herdspec.check.protocol import Protocol, later

HERE = "herdspec.protocols.election"

PROTOCOL = Protocol(
    "election",
    verified=later(f"{HERE}.properties:ELECTION"),
    declared=later(f"{HERE}.flaws:AT_ONCE"),
    contract=later(f"{HERE}.contract:CONTRACT"),
    within=True,
    refinement=later(f"{HERE}.refinement:REFINEMENT"),
    drafted=later(f"{HERE}.flaws:DRAFTED"),
    flaws=later(f"{HERE}.flaws:FLAWS"),
)
