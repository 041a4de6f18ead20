"""
The trace map: a table beside a spec that says what the lines of its code's traces are to it.

    MAP = TraceMap(
        Lease,
        rows={
            "lease_granted": Row("grant", arguments={"c": "client"}),
            "write": Row(silent=["expire"]),
            "connected": Row(None),
        },
        ranks={"term": Scale(["term", "token", "written"])},
    )

Without a row, a line is the action of its name, its arguments are those of the same names, and it
shows all that it says was seen. So a tracer that writes the spec's own names needs no map at all.

There are three levels, and each may be mixed with the one before it:

1. the table alone;
2. a row with a function of the line and a state, which gives the ways in which the spec can come
   from there to the line (`Row(ways=…)`), each a list of calls of the spec's actions;
3. all lines at once as `herdspec.check.possible.Line`s (`TraceMap(Lease, raw=…)`), for what has to
   be said of moments before a step, or of faults that are noticed late (`herdspec.check.conform`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from herdproof.conformance.traces.groups import Missing
from herdproof.conformance.traces.line import ANY_PROTOCOL, START, Formats, TraceLine
from herdproof.conformance.traces.values import Claim, NoValue, Scale, Values, number_paths
from herdspec.check.follow import Way
from herdspec.check.possible import Line
from herdspec.check.run import sets_among
from herdspec.language.errors import UsageError
from herdspec.language.specification import Action, Specification, specification
from herdspec.language.surface import Kind, Spec
from herdspec.language.types import SetOf

OWN = "(its own name)"
"""The action of a row that says none: the one of its name."""


class Any_:  # noqa: N801  (its one instance is what has a name)
    """What a line does not tell: any value will do."""

    def __repr__(self) -> str:
        return "ANY"


ANY = Any_()
"""The source of a parameter that the trace does not tell: whatever value explains the line."""

Source = str | Callable[[TraceLine], Any] | Any_
"""
Where a value stands in a line: `node`, `role`, `group`, `zxid`, `seen.NAME`, `arguments.NAME`, or
just NAME for an argument; or a function of the line; or `ANY`.
"""


@dataclass(frozen=True)
class Row:
    """
    What the lines of one action are to the spec.

    `action` is the spec's name for it, None if it is no step of the spec. `arguments` says where
    each parameter stands that is not the argument of its own name. `seen` are the fields that the
    line shows: some of those that it says were seen, or a mapping from `field` (or `field[NAME]`,
    the entry of what stands at NAME) to where its value stands. `silent` are the actions that may
    come right before, however often, and that nobody traces. `ways` is a function of what is told
    and a state: the ways from there to the line, all of which are tried.
    """

    action: str | None = OWN
    arguments: Mapping[str, Source] = field(default_factory=dict)
    seen: Sequence[str] | Mapping[str, Source] | None = None
    silent: Sequence[str] = ()
    ways: Ways | None = None


@dataclass(frozen=True)
class Told:
    """What a row makes of a line: for functions that say the ways to it."""

    line: TraceLine
    arguments: Mapping[str, Any]
    """By parameter of the row's action, values of the spec's."""
    values: Values

    def element(self, sort: str, name: str) -> Any:
        """The element of a sort that the code calls so."""
        return self.values.element(sort, name)

    def rank(self, scale: str, number: int) -> int:
        """The rank of a number among all of its scale."""
        return self.values.rank(scale, number)


Ways = Callable[[Told, Any], Iterable[Way]]


@dataclass(frozen=True)
class Raw:
    """All lines of a group, as the replay of traces that name only some steps takes them."""

    sizes: Mapping[str, int]
    lines: Sequence[Line]
    named: Collection[str]
    """The actions that such lines name wherever they happen; all others may happen silently."""
    never: Collection[str] = ()
    inbox: str | None = None
    at: Sequence[int] = ()
    """Of each, the number of the trace's line of which it was made; of none, its own."""
    names: Sequence[str] = ()
    """The nodes' own names, in the order of the elements that stand for them."""
    objection: tuple[int, str] | None = None
    """The number of the first line that does not fit those before it, and why; it ends `lines`."""


@dataclass(frozen=True)
class TraceMap:
    """
    What the traces of some code are to a spec.

    `rows` are by the action that lines name. `names` gives the elements of a sort in their order;
    without, they are numbered as their names appear. `ranks` are scales by name. `silent` are the
    actions that may come before any line, and that nobody traces. `nodes` are the sorts whose
    elements write traces of their own, under their names: where one is named, and has no trace,
    nothing can be said. `protocol` is the name in the lines, if that is not the spec's.
    """

    spec: type[Spec] | Specification
    rows: Mapping[str, Row | Ways] = field(default_factory=dict)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ranks: Mapping[str, Scale | Sequence[str]] = field(default_factory=dict)
    silent: Sequence[str] = ()
    nodes: Sequence[str] = ()
    protocol: str = ""
    raw: Callable[[Sequence[Any]], Raw] | None = None
    """Makes all lines of a group at once; then no row is used."""
    formats: Formats = field(default_factory=lambda: ANY_PROTOCOL)
    """How lines are read; those of a format of its own are for `raw`."""
    start: str = START
    """The action of a process's first line."""
    untraced: Callable[[Sequence[Any]], Iterable[Missing]] | None = None
    """Who should have a trace, and has none, by what all lines say."""

    def __post_init__(self) -> None:
        for sort in (*self.names, *self.nodes):
            if sort not in self.specification.sorts:
                known = ", ".join(self.specification.sorts) or "none"
                raise UsageError(
                    f"the map of {self.name} names the sort {sort!r}; its sorts: {known}"
                )
        self._check_ranks()
        self._check_silent("the map", self.silent)
        for name, row in self._table.items():
            where = f"row {name!r}"
            self._check_silent(where, row.silent)
            action = self.action_of(name)
            if action is None and row.action == OWN and row.ways is None and name != START:
                raise self._no_action(where, name, "Row(action=…)")
            parameters = {p for p, _ in action.parameters} if action else set()
            for parameter in row.arguments:
                if parameter not in parameters:
                    of = f"{action.name} has {said(parameters)}" if action else "it has no action"
                    raise UsageError(
                        f"{where} of the map of {self.name} says where {parameter!r} stands, which"
                        f" is no parameter: {of}"
                    )

    @property
    def specification(self) -> Specification:
        """The spec."""
        spec = self.spec
        return spec if isinstance(spec, Specification) else specification(spec)

    @property
    def name(self) -> str:
        """The protocol's name in lines."""
        return self.protocol or self.specification.name

    @property
    def _table(self) -> dict[str, Row]:
        return {n: row if isinstance(row, Row) else Row(ways=row) for n, row in self.rows.items()}

    def scales(self) -> dict[str, Scale]:
        """The scales by name."""
        return {n: s if isinstance(s, Scale) else Scale(s) for n, s in self.ranks.items()}

    def row_of(self, name: str) -> Row:
        """The row of an action that a line names; NoValue if there is none, nor such an action."""
        row = self._table.get(name)
        if row is not None:
            return row
        if name == START:
            return Row(None)
        if name not in {a.name for a in self.specification.actions}:
            raise NoValue(str(self._no_action("the line", name, "a row for it, or Row(None)")))
        return Row()

    def action_of(self, name: str) -> Action | None:
        """The spec's action that a row stands for, if it stands for one."""
        row = self._table.get(name, Row(None) if name == START else Row())
        wanted = name if row.action == OWN else row.action
        if wanted is None:
            return None
        found = next((a for a in self.specification.actions if a.name == wanted), None)
        if found is None and row.action != OWN:
            raise self._no_action(f"row {name!r} of the map", wanted, "one of these")
        return found

    def faults(self) -> frozenset[str]:
        """The actions that are faults: as silent ones they are supposed only where needed."""
        return frozenset(a.name for a in self.specification.actions if a.kind is Kind.FAULT)

    def _check_ranks(self) -> None:
        known = list(dict.fromkeys(number_paths(self.specification)))
        for scale, of in self.scales().items():
            for path in of.of:
                if path not in known:
                    raise UsageError(
                        f"the scale {scale!r} of the map of {self.name} names {path!r}, which is no"
                        f" number of the spec: write some of {', '.join(known) or 'none'}"
                    )

    def _check_silent(self, where: str, silent: Sequence[str]) -> None:
        if isinstance(silent, str):
            raise UsageError(f"{where}: silent={silent!r}; write a list: [{silent!r}]")
        for name in silent:
            if name not in {a.name for a in self.specification.actions}:
                raise self._no_action(f"silent of {where}", name, "one of these")

    def _no_action(self, where: str, name: str, write: str) -> UsageError:
        known = [a.name for a in self.specification.actions]
        near = get_close_matches(name, known, n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        return UsageError(
            f"{where} names {name!r}, which is no action of {self.specification.name}{meant}: it"
            f" has {', '.join(known)}; write {write}"
        )


def said(names: Collection[str]) -> str:
    """Names in a sentence."""
    return ", ".join(sorted(names)) or "none"


# ── A line ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Bound:
    """A line in the spec's terms."""

    line: TraceLine
    row: Row
    action: Action | None
    arguments: Mapping[str, Any]
    """By parameter; those that the line does not tell are not there."""
    claims: Sequence[Claim]


OF_ALL = frozenset({"node", "role", "group", "zxid", "sequence", "time_ns"})
"""What every line has, and a map may name."""
_ENTRY = re.compile(r"([\w.]+)(?:\[(.+)\])?")
_MISSING = object()


def bound(table: TraceMap, values: Values, line: TraceLine) -> Bound:
    """A line in the spec's terms; raises `NoValue`."""
    row = table.row_of(line.action)
    action = table.action_of(line.action)
    sets = sets_among(action, table.specification.shape) if action else set()
    arguments = {}
    for name, parameter in action.parameters if action else ():
        source = row.arguments.get(name, name)
        if source is ANY:
            continue
        told = found(line, source)
        if told is _MISSING:
            raise NoValue(
                f"it does not tell the parameter {name!r} of {line.action}: write it ({name}=…), or"
                f" say in the map where it stands, or that it may be anything:"
                f" Row(arguments={{{name!r}: ANY}})"
            )
        kind: Any = parameter.kind
        kind = SetOf(kind.keys) if name in sets else kind
        arguments[name] = values.value(kind, told, f"{action.name}.{name}" if action else name)
    if action is not None and line.action == action.name:
        _check_arguments(row, action, line)
    claims = [claim for name, told in shown(row, line) for claim in values.claims(name, told)]
    return Bound(line, row, action, arguments, claims)


def _check_arguments(row: Row, action: Action, line: TraceLine) -> None:
    """Refuse an argument that is no parameter, in a line without a row that looks elsewhere."""
    if row.arguments or row.ways or isinstance(row.seen, Mapping):
        return
    names = [name for name, _ in action.parameters]
    for name in line.arguments:
        if name not in names:
            raise NoValue(
                f"{name!r} is no parameter of {action.name}, which has {said(names)}: write one of"
                f" these, or say in a row of the map where they stand"
            )


def found(line: TraceLine, source: Source) -> Any:
    """What stands at a place of a line; `_MISSING` if nothing does."""
    if callable(source):
        return source(line)
    assert isinstance(source, str), "ANY is looked for nowhere"
    if source in OF_ALL and source not in line.arguments:
        return getattr(line, source)
    holder, _, name = source.partition(".")
    if name and holder in ("seen", "arguments"):
        return getattr(line, holder).get(name, _MISSING)
    return line.arguments.get(source, _MISSING)


def shown(row: Row, line: TraceLine) -> list[tuple[str, Any]]:
    """The fields that a line shows, each with what it says of them."""
    if row.seen is None:
        return list(line.seen.items())
    if not isinstance(row.seen, Mapping):
        return [(name, line.seen[name]) for name in row.seen if name in line.seen]
    entries = []
    for entry, source in row.seen.items():
        told = found(line, source)
        parsed = _ENTRY.fullmatch(entry)
        if parsed is None:
            raise NoValue(f"Row(seen=…) says {entry!r}: write `field`, or `field[NAME]`")
        if told is _MISSING:
            continue
        if parsed[2] is None:
            entries.append((entry, told))
            continue
        keys = [found(line, key.strip()) for key in parsed[2].split(",")]
        if _MISSING in keys:
            raise NoValue(f"Row(seen=…) says {entry!r}, and the line tells no {parsed[2]}")
        entries.append((parsed[1], [[keys[0] if len(keys) == 1 else keys, told]]))
    return entries
