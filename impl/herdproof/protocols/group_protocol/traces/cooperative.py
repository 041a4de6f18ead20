"""
Maps the lines of cooperative clients to the spec's variant for these.

Such a client says so as it begins, and with each JoinGroup what it keeps. In a group that has any,
an eager one is one that gives up all that it has before it joins. What coordinators' lines tell is
mapped as ever: of what members keep they tell nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import cast

from herdproof.conformance.traces.line import TraceLine
from herdproof.conformance.traces.mapping import TraceMap
from herdproof.protocols.group_protocol.traces.clients import LOSES_ID, ClientsTrace, State
from herdproof.protocols.group_protocol.traces.trace_map import GroupTrace, map_of
from herdspec.check.conformance.follow import Way
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.replays.replayed_cooperative import cooperative_in_replays
from herdspec.protocols.group_protocol.variants.cooperative.spec import CooperativeGroup

OVER = (*LOSES_ID, "ILLEGAL_GENERATION")
"""Errors after which others may have a client's partitions, so that it gives them up."""


class CooperativeClients(ClientsTrace):
    """The clients of one group, of which some keep what they have while they join."""

    def initiates(self, m: Member, line: TraceLine, s: State) -> Way:
        """It sends JoinGroup; who is eager gives up all that it has before."""
        keeps = self._names[id(line)] in self._cooperative
        return [*([] if keeps else [("give_all_up", (m,))]), *super().initiates(m, line, s)]

    def joins(self, m: Member, line: TraceLine, s: State) -> Way:
        """It is told of its generation, which has begun with what it keeps."""
        *before, last = super().joins(m, line, s)
        return [*before, ("be_counted_with", (m,)), last]

    def completes(self, m: Member, line: TraceLine, _s: State) -> Way:
        """It has its assignment, in which is nothing that another one keeps."""
        return [("be_offered", (m, self._given(line))), ("on_join_complete", (m,))]

    def fails(self, m: Member, line: TraceLine, s: State) -> Way:
        """It is refused what it awaits."""
        return [*super().fails(m, line, s), *self._loses(m, line)]

    def is_refused(self, m: Member, line: TraceLine, s: State) -> Way | None:
        """It is refused what it asked for as a member."""
        way = super().is_refused(m, line, s)
        return way if way is None else [*way, *self._loses(m, line)]

    def _loses(self, m: Member, line: TraceLine) -> Way:
        return [("give_all_up", (m,))] if line.arguments.get("outcome") in OVER else []

    def begins(self, m: Member, line: TraceLine, s: State) -> Way:
        """It is told where to begin with what it did not have before."""
        marks = self._marks(line)
        asked = {p: rank for p, rank in marks.items() if s.asks_for(m, p)}
        moves = [("finish", (m, p)) for p, rank in asked.items() for _ in range(rank)]
        return [("be_told_where", (m,)), *moves]

    def commits(self, m: Member, line: TraceLine, s: State) -> Way:
        """OffsetCommit is sent, perhaps of what its last assignment has taken from it."""
        marks, find = {*self._marks(line)}, ("find", (m,))
        gone = {p for p in marks if not s.given[m, p]}
        parts = ("commit_what_it_gave_up", gone), ("commit_some", marks - gone)
        return [step for name, which in parts if which for step in (find, (name, (m, which)))]


class CooperativeTrace(GroupTrace):
    """One group of one run, some of whose clients are cooperative."""

    clients_class = CooperativeClients

    def offers(self, s: State) -> Mapping[tuple[Member, Partition], bool]:
        """The assignments that are under way."""
        return cast("CooperativeGroup", s).offered


@cache
def map_of_cooperative() -> TraceMap:
    """The map of the spec's variant with cooperative members."""
    return replace(
        map_of(), spec=cooperative_in_replays(), group=CooperativeTrace,
        initial=CooperativeTrace.initial, variant=None,
    )  # fmt: skip
