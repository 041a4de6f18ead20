"""The protocols whose traces can be audited, as their lines name them; each is entered once."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from herdproof.pipeline.audit.auditor import Auditor, Malformed, Replayed, Teller
from herdproof.protocols.implementation import auditors

__all__ = ["Auditor", "Malformed", "Replayed", "Teller", "auditor", "auditors", "read_line"]


def auditor(name: str) -> Auditor:
    """What the pipeline knows of the protocol that lines name so."""
    return auditors()[name]


@cache
def _reads() -> list[tuple[str, Callable[[str, str], Any]]]:
    return [(f'"protocol":"{name}"', found.read) for name, found in auditors().items()]


def read_line(text: str, place: str) -> Any:
    """A line of whatever protocol it names, or `Malformed`."""
    for named, read in _reads():
        if text.find(named, 0, 200) >= 0:
            return read(text, place)
    return auditor(protocol_of(text)).read(text, place)


def protocol_of(text: str) -> str:
    """The protocol that a line names, one of those that can be audited; or `Malformed`."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise Malformed("malformed", f"this is no JSON ({problem}): {text[:60]!r}") from None
    if not isinstance(raw, dict):
        raise Malformed("malformed", "a line of a trace is a JSON object")
    name = raw.get("protocol")
    if not isinstance(name, str) or name not in auditors():
        known = ", ".join(auditors())
        raise Malformed("unknown_protocol", f"the protocol is {name!r}; known are {known}")
    return name
