"""The protocols whose traces can be audited, as their lines name them; each is entered once."""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from functools import cache
from typing import Any

from herdproof.errors import Malformed
from herdproof.pipeline.audit.auditor import Auditor, Replayed
from herdproof.protocols.implementation import auditors

__all__ = ["Auditor", "Malformed", "Replayed", "auditor", "auditors", "read_line"]


def auditor(name: str) -> Auditor:
    """The auditor of the protocol that lines name so."""
    return auditors()[name]


class _Ungrouped(Container[object]):
    """Protocols whose lines name no group; a protocol is read when it is asked for."""

    def __contains__(self, name: object) -> bool:
        return name in auditors() and not auditor(str(name)).grouped


UNGROUPED: Container[object] = _Ungrouped()


@cache
def _reads() -> list[tuple[str, str]]:
    return [(f'"protocol":"{name}"', name) for name in auditors()]


@cache
def _reader(name: str) -> Callable[[str, str], Any]:
    return auditor(name).read


def read_line(text: str, place: str) -> Any:
    """A line of whatever protocol it names, or `Malformed`."""
    for named, name in _reads():
        if text.find(named, 0, 200) >= 0:
            return _reader(name)(text, place)
    return _reader(protocol_of(text))(text, place)


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
