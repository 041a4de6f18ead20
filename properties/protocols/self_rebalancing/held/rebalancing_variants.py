"""
What the traces of system A's flawed cores are to the variants of the spec, each to its own.

Most are read as the corrected cores' are (`trace_map.py`); some have a few rows of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import product

from herdproof.conformance.traces.mapping import DecodedLine, Row, TraceMap
from herdproof.protocols.self_rebalancing.traces.trace_map import (
    ROWS,
    RebalancingTrace,
    State,
    map_of,
)
from herdspec.check.conformance.follow import ELSE, Way
from herdspec.protocols.self_rebalancing.plan import flaws
from herdspec.protocols.self_rebalancing.properties import any_plan
from herdspec.protocols.self_rebalancing.replayed import in_replays
from herdspec.protocols.self_rebalancing.spec import Member, Rebalance


class VariantTrace(RebalancingTrace):
    """What single mistakes are told as."""

    def reads_early(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """Offsets are read with the plan: before the first claim is asked for."""
        m = self._m(told)
        if s.phase[m] is not Rebalance.OFFSETS:
            return [[]]
        sent = product(*(self._done(other, s) for other in Member if other != m))
        return [[*(call for way in ways for call in way), ("read_offsets", (m,))] for ways in sent]

    def answered(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A node may be deleted whose owner has not heard yet that it has claimed."""
        yield from super().answered(told, s)
        m, ((p, _),) = self._m(told), self._places(told.line)
        if self._answer is not None and self._answer.action == "release":
            yield ELSE
            for (other, q, _), asked in self._asked.items():
                if q == p and asked.action == "claim":
                    yield [("claim", (other, p)), ("give_back", (m, p))]

    def refuses(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """An attempt that has failed by one claim hears of the others."""
        failed = s.phase[self._m(told)] is Rebalance.BACKING_OFF
        return [[]] if failed else super().refuses(told, s)

    def goes_on(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It registers in a new session, without a word of the old one's end."""
        m = self._m(told)
        if self._sessions.get(m, 0) in (0, told.line.arguments["session"]):
            return super().registers(told, s)
        return super().comes_back(told, s)


def submits_nothing(row: Row) -> Row:
    """The step in which nothing is submitted has no line."""
    return replace(row, silent=("commit_offsets",))


OWN_ROWS: Mapping[str, Mapping[str, Row]] = {
    "stale_start": {
        "claim": replace(ROWS["claim"], ways=VariantTrace.reads_early),
        "read_offsets": Row(None, ways=VariantTrace.reads_early, claims=VariantTrace.begins),
    },
    "no_commit_at_closing": {
        name: submits_nothing(ROWS[name]) for name in ("answered", "read_topics")
    },
    "zombie_release": {"answered": replace(ROWS["answered"], ways=VariantTrace.answered)},
    "registry_before_owners": {"answered": replace(ROWS["answered"], ways=VariantTrace.answered)},
    "retries_exhausted": {"refuse_claim": replace(ROWS["refuse_claim"], ways=VariantTrace.refuses)},
    "new_session_goes_on": {
        # its session is that of the line only once the replay has come by it
        "register": Row(ways=VariantTrace.goes_on),
        "close_fetchers": replace(ROWS["close_fetchers"], note=VariantTrace.enters),
    },
}
"""By variant, rows that are others."""


@cache
def map_of_variant(name: str) -> TraceMap:
    """The map of a flaw's variant."""
    spec = flaws()[name].spec
    variant = in_replays(spec.replace(spec.name, agrees=any_plan))
    made = replace(map_of(), group=VariantTrace)
    return made.of(variant, OWN_ROWS.get(name))
