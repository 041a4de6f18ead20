"""
What the traces of the group coordinator's flawed cores are to the variants of the spec.

They are read as the core's are; where the variant stores nothing, what it does is done at once.
"""

from collections.abc import Iterable, Mapping
from functools import cache

from herdproof.conformance.traces.mapping import DecodedLine, Row, TraceMap
from herdproof.protocols.group_protocol.traces.lines import members
from herdproof.protocols.group_protocol.traces.trace_map import (
    GroupTrace,
    State,
    decided,
    map_of,
)
from herdspec.check.conformance.follow import Way
from herdspec.protocols.group_protocol.plan import flaws
from herdspec.protocols.group_protocol.replays.replayed import in_replays


def completes(group: GroupTrace, told: DecodedLine, s: State) -> Iterable[Way]:
    """A generation that is not stored is, for all that its coordinator does."""
    if not members(told.line):
        return group.completes(told, s)
    return [[("complete_join", ()), group.stores(told.line)]]


OWN_ROWS: Mapping[str, Mapping[str, Row]] = {
    "generation_unstored": {"complete_join": decided(completes, note=GroupTrace.asks)},
}
"""By variant, rows that are others."""


@cache
def map_of_variant(name: str) -> TraceMap:
    """The map of a flaw's variant."""
    return map_of().of(in_replays(flaws()[name].spec), OWN_ROWS.get(name))
