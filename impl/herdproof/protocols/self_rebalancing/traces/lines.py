"""Lines of self-rebalancing consumers, and what each needs to say something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from herdproof.conformance.traces.line import SCHEMA, Formats, TraceLine

NEEDED: Mapping[str, tuple[str, ...]] = {
    "register": ("session",), "handle_new_session": ("session",),
    **dict.fromkeys(("claim", "release", "recall", "commit"), ("partitions",)),
    "answered": ("outcome", "partitions"),
}  # fmt: skip
"""By action, arguments without which a line says nothing; see `self_rebalancing_trace.md`."""


class ConnectorLine(TraceLine, kw_only=True, gc=False, omit_defaults=True):
    """A line of a self-rebalancing consumer."""

    @staticmethod
    def lacks(action: str, arguments: Mapping[str, Any], /) -> str:
        """The first argument that is needed, and is not there."""
        return next((name for name in NEEDED.get(action, ()) if name not in arguments), "")


FORMATS: Formats = {(SCHEMA, ""): ConnectorLine}
"""The format of its lines."""
