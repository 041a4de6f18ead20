"""System C, entered: its spec."""

from __future__ import annotations

from herdproof.protocols.implementation import Implementation
from herdspec.protocols.group_protocol.plan import PROTOCOL

IMPLEMENTATION = Implementation(PROTOCOL)
