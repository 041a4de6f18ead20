"""
Maps the traces of groups with static members to the spec's variant for these.

A life of a static member is a member of its own, as in the variant; under which name
(`group.instance.id`) it came, the line tells with which it is new, or comes back. What is refused
to a former life is held to that, where a line has told its name; of members that were there before
the trace begins, none has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

from herdproof.conformance.traces.line import TraceLine
from herdproof.conformance.traces.mapping import DecodedLine, Row, TraceMap
from herdproof.conformance.traces.values import Values
from herdproof.protocols.group_protocol.traces.lines import member
from herdproof.protocols.group_protocol.traces.trace_map import (
    KNOWN,
    ROWS,
    GroupTrace,
    Shown,
    State,
    decided,
    map_of,
)
from herdspec import action
from herdspec.check.conformance.follow import Call, Way
from herdspec.protocols.group import Member
from herdspec.protocols.group_protocol.lemmas import all_wait_while_the_generation_is_stored
from herdspec.protocols.group_protocol.replays.replayed import SHOWN, in_replays
from herdspec.protocols.group_protocol.values import GroupAnswer, GroupWrite, MemberState
from herdspec.protocols.group_protocol.variants.static.properties import (
    STATIC_HELD,
    one_life_has_the_place,
)
from herdspec.protocols.group_protocol.variants.static.spec import StaticGroup

FENCED = "FENCED_INSTANCE_ID"
COMES_BACK = "replace_member"


class StaticTrace(GroupTrace):
    """One group of one run, some of whose members are static."""

    def __init__(self, values: Values, lines: Sequence[TraceLine]) -> None:
        self._instances: dict[str, str] = {}
        """By member id, the name of its static member, if a line tells it."""
        self._came_last: dict[str, str] = {}
        """By broker, the member id of whoever has come back to it last."""
        self._lives: dict[int, str] = {}
        """By line that asks for a next life to be stored, its member id."""
        super().__init__(values, lines)

    def _gather(self, line: TraceLine) -> None:
        super()._gather(line)
        if name := line.arguments.get("instance", ""):
            self._instances[member(line)] = name
            self._values.element("Instance", name)
        if is_stored_for(line):
            self._lives[id(line)] = self._came_last.get(line.node, "")
        elif line.action == COMES_BACK:
            self._came_last[line.node] = member(line)

    def initial(self) -> Mapping[tuple[str, Any], Any]:
        """The initial state says who is static, and under which name."""
        before = super().initial()
        names = {self._member(one): name for one, name in self._instances.items()}
        return {
            **before,
            **{("instance", m): self._values.element("Instance", n) for m, n in names.items()},
        }

    # ── Coming back ─────────────────────────────────────────────────────────────────────────

    def comes_back(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """The JoinGroup of a next life is read; in a Stable group that is to be stored."""
        del s
        if is_stored_for(told.line):
            return [[]]
        m = told["m"]
        return [[("ask_to_join", (m, False)), ("handle_join_group", (m,)), ("bear_id", (m,))]]

    def came_back(self, told: DecodedLine, s: State) -> Shown:
        """It has its former life's place; what is to be stored names it."""
        line = told.line
        if not is_stored_for(line):
            return {"whether it waits": (s.joined[told["m"]], True)}
        return {
            "what is to be stored": (s.write, GroupWrite.REPLACEMENT),
            "the generation": (s.generation, self._generation(line)),
            "its members": ([m for m in self._members if s.is_member(m)], self._belong(line)),
        }

    def notes_return(self, told: DecodedLine) -> None:
        """Something is to be stored."""
        if is_stored_for(told.line):
            self.asks(told)

    def stores(self, line: TraceLine) -> Call:
        """A next life is stored in the place of its former one."""
        if not is_stored_for(line):
            return super().stores(line)
        return "store_replacement", (self._member(self._lives[id(line)]),)

    def answered(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A next life that is stored is answered, of which there is no line."""
        ways, asking = super().answered(told, s), self._answer
        if asking is None or not is_stored_for(asking):
            return ways
        m = self._member(self._lives[id(asking)])
        return [[*way, ("answer_replacement", (m,))] for way in ways]

    def stored(self, told: DecodedLine, s: State) -> Shown:
        """Whose the partitions are, and who leads, once a next life is stored."""
        del told
        asking = self._answer
        if asking is None or not is_stored_for(asking):
            return {}
        leader = self._member(asking.arguments["leader"])
        return {"the owners": (s.owner, self._plan(asking)), "its leader": (s.leader, leader)}

    # ── What former lives are refused ───────────────────────────────────────────────────────

    def joins(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A JoinGroup is read."""
        return [[]] if self._is_unknown(told, s) else super().joins(told, s)

    def joined(self, told: DecodedLine, s: State) -> Shown:
        """The claims about its answer."""
        return self._refused(told, s) if is_refused(told) else super().joined(told, s)

    def syncs(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A SyncGroup is read."""
        return [[]] if self._is_unknown(told, s) else super().syncs(told, s)

    def synced(self, told: DecodedLine, s: State) -> Shown:
        """The claims about its answer."""
        return self._refused(told, s) if is_refused(told) else super().synced(told, s)

    def beats(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A heartbeat is read."""
        return [[]] if self._is_unknown(told, s) else super().beats(told, s)

    def beaten(self, told: DecodedLine, s: State) -> Shown:
        """The claims about its answer."""
        if not is_refused(told):
            return super().beaten(told, s)
        has_ended = s.client[told["m"]] == MemberState.OFF
        return {} if self._is_unknown(told, s) else {"whether it is fenced": (has_ended, True)}

    def _refused(self, told: DecodedLine, s: State) -> Shown:
        m, answer = told["m"], GroupAnswer.FENCED_INSTANCE_ID
        return {} if self._is_unknown(told, s) else {"the answer": (s.down[m], answer)}

    def _is_unknown(self, told: DecodedLine, s: State) -> bool:
        """True if a former life is refused something, and no line tells whose life it is."""
        return is_refused(told) and cast("StaticGroup", s).instance[told["m"]] is None

    # ── Those that nobody waits for ─────────────────────────────────────────────────────────

    def completes(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """All have joined, or all but static ones, for which nobody waits any longer."""
        ways = super().completes(told, s)
        if s.all_have_joined():
            return ways
        return [[("complete_join_late", ())] if way == COMPLETED else way for way in ways]


COMPLETED: Way = [("complete_join", ())]


def is_stored_for(line: TraceLine) -> bool:
    """Tells whether a line asks for a next life to be stored."""
    return line.action == COMES_BACK and "number" in line.arguments


def is_refused(told: DecodedLine) -> bool:
    """Tells whether a request was refused to a former life."""
    return bool(told.line.arguments["outcome"] == FENCED)


@action
def bear_id(self: StaticGroup, m: Member) -> None:
    """{m} will be told its member id before it asks for anything else."""
    self.has_id[m] = True


# ── The table ───────────────────────────────────────────────────────────────────────────────

S = StaticTrace
HEARD = KNOWN | {FENCED}
STATIC_ROWS: Mapping[str, Row] = {
    **ROWS,
    "handle_join_group": decided(S.joins, S.joined, known=HEARD),
    "handle_sync_group": decided(S.syncs, S.synced, known=HEARD),
    "heartbeat": decided(S.beats, S.beaten, known=HEARD),
    "complete_join": decided(S.completes, S.completed, S.asks),
    COMES_BACK: decided(S.comes_back, S.came_back, S.notes_return, "handle_join_group"),
    "answered": decided(S.answered, S.stored, S.hears, action=None),
}


@cache
def map_of_statics() -> TraceMap:
    """The map of the spec's variant with static members."""
    shown = [p for p in SHOWN if p.name != all_wait_while_the_generation_is_stored.name]
    spec = in_replays(STATIC_HELD, [*shown, one_life_has_the_place], bear_id=bear_id)
    return replace(
        map_of(), spec=spec, rows=STATIC_ROWS, group=StaticTrace, initial=S.initial, variant=None
    )
