"""
The protocols whose traces can be audited, by name: what reads, orders, tells and replays them.

Whoever adds a protocol writes an `Auditor` and enters it here; nothing else of the pipeline knows
any protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from herdproof.pipeline.auditor import Auditor, Malformed, Replayed, Teller
from herdproof.pipeline.central_trace import CentralAuditor
from herdproof.pipeline.election_trace import ElectionAuditor

__all__ = ["PROTOCOLS", "Auditor", "Malformed", "Replayed", "Teller", "read_line"]

_AUDITORS: tuple[Auditor, ...] = (CentralAuditor(), ElectionAuditor())

PROTOCOLS: Mapping[str, Auditor] = {auditor.name: auditor for auditor in _AUDITORS}
"""By the name that lines give."""


_READS = [(f'"protocol":"{name}"', auditor.read) for name, auditor in PROTOCOLS.items()]


def read_line(text: str, place: str) -> Any:
    """A line of whatever protocol it names, or `Malformed`."""
    for named, read in _READS:
        if text.find(named, 0, 200) >= 0:
            return read(text, place)
    return PROTOCOLS[protocol_of(text)].read(text, place)


def protocol_of(text: str) -> str:
    """The protocol that a line names, one of `PROTOCOLS`; or `Malformed`."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise Malformed("malformed", f"this is no JSON ({problem}): {text[:60]!r}") from None
    if not isinstance(raw, dict):
        raise Malformed("malformed", "a line of a trace is a JSON object")
    name = raw.get("protocol")
    if not isinstance(name, str) or name not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise Malformed("unknown_protocol", f"the protocol is {name!r}; known are {known}")
    return name
