"""Lines of the group protocol: what they need, and the members and owners that they tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from herdproof.conformance.traces.line import SCHEMA, Formats, TraceLine
from herdproof.protocols.group_protocol.steps import CHANGED, NEW, TOLD, WAITS

NEEDED: Mapping[str, tuple[str, ...]] = {
    "load_group": ("epoch",), "handle_join_group": ("outcome",),
    "handle_sync_group": ("outcome",), "heartbeat": ("outcome",),
    "handle_leave_group": ("outcome",), "handle_offset_commit": ("outcome",),
    "answered": ("number", "outcome"), "expire": ("member",),
    "refused": ("outcome",), "(answered)": ("request", "answer"),
}  # fmt: skip
"""By action, arguments without which a line says nothing; see `docs/group_protocol_trace.md`."""
OF_A_MEMBER = frozenset({WAITS, CHANGED, NEW, TOLD})
"""Outcomes of requests that only members have."""


class GroupTraceLine(TraceLine, kw_only=True, gc=False, omit_defaults=True):
    """A line of a coordinator, of a client, or of what Kafka answers."""

    @staticmethod
    def lacks(action: str, arguments: Mapping[str, Any], /) -> str:
        """The first argument that is needed, and is not there."""
        for name in NEEDED.get(action, ()):
            if name not in arguments:
                return name
        if action == "replace_member" and "number" in arguments:  # it is to be stored
            return "" if "leader" in arguments else "leader"
        outcome = arguments.get("outcome")
        is_of_a_member = action == "replace_member" or (outcome in OF_A_MEMBER and action in NEEDED)
        return "member" if is_of_a_member and "member" not in arguments else ""


FORMATS: Formats = {(SCHEMA, ""): GroupTraceLine}
"""The format of its lines."""


def member(line: TraceLine) -> str:
    """The member whose request it is, or who is expelled."""
    told: str = line.arguments.get("member", "")
    return told


def members(line: TraceLine) -> Sequence[str]:
    """The members that a line tells."""
    told: Sequence[str] = line.arguments.get("members", ())
    return told


def owners(line: TraceLine) -> Iterator[tuple[str, str]]:
    """Members and the partitions that they are assigned, by their names."""
    told = line.arguments.get("owners", ())
    return ((who, f"{topic}-{number}") for who, topic, number in told)
