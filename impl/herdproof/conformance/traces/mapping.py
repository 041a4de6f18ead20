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
   from there to the line (`Row(ways=…)`), each a list of calls of the spec's actions; what has to
   be remembered from line to line is kept by a class for each group (`TraceMap(group=…)`), of
   which such functions are methods;
3. all lines at once (`TraceMap(Lease, raw=…)`), for what has to be said of moments before a step,
   or of faults that are noticed late (`herdspec.check.conformance.conform`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from msgspec import Struct

from herdproof.conformance.traces.groups import Missing
from herdproof.conformance.traces.line import ANY_PROTOCOL, START, Formats
from herdproof.conformance.traces.ordering import Causes, Links
from herdproof.conformance.traces.values import Claim, NoValue, Scale, Values, number_paths
from herdspec.check.conformance.conform import CAP
from herdspec.check.conformance.follow import StepConstraint, Way
from herdspec.check.conformance.possible import Line
from herdspec.language.errors import UsageError
from herdspec.language.specification import Action, Specification, specification
from herdspec.language.surface import ActionKind, Spec

OWN = "(its own name)"
"""The action of a row that says none: the one of its name."""


class Any_:  # noqa: N801  (its one instance is what has a name)
    """A value that a line does not tell: any will do."""

    def __repr__(self) -> str:
        return "ANY"


ANY = Any_()
"""The source of a parameter that the trace does not tell: whatever value explains the line."""

Source = str | Callable[..., Any] | Any_
"""
Where a value stands in a line: `node`, `role`, `group`, `zxid`, `seen.NAME`, `arguments.NAME`, or
just NAME for an argument (in a line of a format of its own: for a field); or a function of the
line; or `ANY`. In a map with a `group`, functions are methods of that.
"""

Action_ = str | Sequence[str | None] | None
Ways = Callable[..., Iterable[Way]]
"""Told of a line and a state."""


@dataclass(frozen=True)
class Row:
    """
    A row of a map: what the lines of one action are to the spec.

    `action` is the spec's name for it, None if it is no step of the spec; of several, each may be
    None, the first is meant that leads to the line. `arguments` says where each parameter stands
    that is not the argument of its own name. `seen` are the fields that the line shows: some of
    those that it says were seen, or a mapping from `field` (or `field[NAME]`, the entry of what
    stands at NAME, or of the parameter of that name) to where its value stands. `silent` are the
    actions that may come right before, however often, and that nobody traces; of `before`, one may
    come right before, with the line's own arguments, where nothing else leads to the line. `ways`
    is a function of what is told and a state: the ways from there to the line, all of which are
    tried (but for those after an `ELSE`, where one before it leads there).
    """

    action: Action_ = OWN
    arguments: Mapping[str, Source] = field(default_factory=dict)
    seen: Sequence[str] | Mapping[str, Source] | None = None
    silent: Sequence[str] = ()
    ways: Ways | None = None
    before: Sequence[str] = ()
    claims: Callable[..., Sequence[str]] | None = None
    """The claims of the line that a state does not fit, beside `seen`; of what is told, and it."""
    begins: str = ""
    """The parameter whose element stands for what the line is about from now on: `Identities`."""
    note: Callable[..., object] | None = None
    """Called with what is told when the replay comes to the line; False: it is no step at all."""
    perhaps: Ways | None = None
    """Of what is told and a state: ways that may have been gone before the line, or not."""
    then: Ways | None = None
    """Of what is told and a state: ways that may be gone right after the line, or not."""
    named: Callable[..., str] | None = None
    """Of what is told: the spec's action that the line counts as, where `ways` say several."""
    prompt: bool = False
    """True if ways that change nothing are gone as soon as they can be, while it is under way."""

    def without(self, gone: Collection[str]) -> Row:
        """The row where these actions never come before its lines."""
        silent = [name for name in self.silent if name not in gone]
        return replace(self, silent=silent, before=[n for n in self.before if n not in gone])


class DecodedLine(Struct, eq=False, gc=False):
    """A line as its row reads it: for functions that say the ways to it."""

    line: Any
    arguments: Mapping[str, Any]
    """By parameter of the row's action, values of the spec's."""
    values: Values
    claims: Sequence[Claim] = ()
    """The claims of the line."""
    led: StepConstraint | None = None
    """The way along it, where its row is a table's."""

    def __getitem__(self, parameter: str) -> Any:
        """The value of a parameter."""
        return self.arguments[parameter]

    def element(self, sort: str, name: str) -> Any:
        """The element of a sort that the code calls so."""
        return self.values.element(sort, name)

    def rank(self, scale: str, number: int, key: Hashable = None) -> int:
        """The rank of a number among all of its scale, of those of its key."""
        return self.values.rank(scale, number, key)


@dataclass(frozen=True)
class Identities:
    """
    Elements of a sort stand for what comes and goes, each for one after another.

    `of` says what a line is about, as a key; where that is None, or nothing that ever began, the
    line is no step. A row that `begins` one takes an element that never stood for anything, or one
    that `is_gone`: told of the line, of what it stood for (`Former`) and of a state, that says
    whether nobody counts on it there any more. `owner` says, of a key, whose it is: among elements
    that are gone, its owner's own are taken first, and there are two for each owner to begin with.
    """

    of: Source
    is_gone: Callable[..., bool]
    owner: Callable[[Any], Hashable] | None = None


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
    A map of the traces of some code to a spec.

    `rows` are by the action that lines name. `names` gives the elements of a sort in their order;
    without, they are numbered as their names appear. `ranks` are scales by name. `silent` are the
    actions that may come before any line, and that nobody traces. `nodes` are the sorts whose
    elements write traces of their own, under their names: where one is named, and has no trace,
    nothing can be said. `protocol` is the name in the lines, if that is not the spec's. `arguments`
    says where a parameter of any action stands, unless its row does.
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
    """The formats of lines; lines of a format of their own are for `raw`."""
    start: str = START
    """The action of a process's first line."""
    untraced: Callable[[Sequence[Any]], Iterable[Missing]] | None = None
    """Who should have a trace, and has none, by what all lines say."""
    arguments: Mapping[str, Source] = field(default_factory=dict)
    identities: Mapping[str, Identities] = field(default_factory=dict)
    """By sort, what its elements stand for, if that comes and goes."""
    group: Callable[[Values, Sequence[Any]], Any] | None = None
    """
    Knowledge of a group while it is replayed, made of its lines: of rows' functions, the first
    argument. Names and numbers that no row finds it tells the values beforehand.
    """
    initial: Callable[[Any], Mapping[tuple[str, Any], int]] | None = None
    """Of the `group`: the entries (field, element) of the initial state that are otherwise."""
    spare: Sequence[str] = ()
    """Sorts that may have more elements than are named: so that groups share what is compiled."""
    links: Callable[[Sequence[Any]], Links[Any]] = Causes
    """Links that, beside times, say in which order lines are to be taken."""
    cap: int = CAP
    """The number of states that may be carried."""
    excused: Callable[[Sequence[Any], int], str] | None = None
    """Of all lines, and the place of one that differs: why it may follow lines that are missing."""
    strangers: Callable[[Sequence[Any], int], str] | None = None
    """
    Of a group's lines, and the place of one that differs: which lines of others, who have no trace
    here, it may follow; empty if it need not. Asked unless all traces are known to be there.
    """
    unmodelled: Collection[str] = ()
    """Actions that are no steps of the spec: a group is unknown from its first one on."""
    variant: Callable[[Sequence[Any]], TraceMap | None] | None = None
    """Of a group's lines: the map of a variant of the spec, where they say what only that does."""
    plain: bool = False
    """Steps are taken by the spec's own Python, however many there are: nothing is compiled."""
    lenient: Callable[[], TraceMap] | None = None
    """
    The map of a variant that does, too, what this code is known to do otherwise than the spec.

    Where a group differs by this map, that one decides, and the outcome tells both.
    """

    def __post_init__(self) -> None:
        for sort in (*self.names, *self.nodes, *self.identities, *self.spare):
            if sort not in self.specification.sorts:
                known = ", ".join(self.specification.sorts) or "none"
                raise UsageError(
                    f"the map of {self.name} names the sort {sort!r}; its sorts: {known}"
                )
        self._check_ranks()
        self._check_silent("the map", self.silent)
        for name, row in self.table.items():
            self._check_row(f"row {name!r}", name, row)

    def _check_row(self, where: str, name: str, row: Row) -> None:
        self._check_silent(where, row.silent)
        self._check_silent(where, row.before, "before")
        actions = [a for a in self.actions_of(name) if a is not None]
        if not actions and row.action == OWN and row.ways is None and name != self.start:
            raise self._no_action(where, name, "Row(action=…)")
        taken = [*actions, *(self.specification.action(n) for n in row.before)]
        parameters = {p: of.kind for a in taken for p, of in a.parameters}
        of = f"{actions[0].name} has {said(parameters)}" if actions else "it has no action"
        for parameter in (*row.arguments, *([row.begins] if row.begins else ())):
            if parameter not in parameters:
                raise UsageError(
                    f"{where} of the map of {self.name} says where {parameter!r} stands, which"
                    f" is no parameter: {of}"
                )
        kind: Any = parameters.get(row.begins)
        if row.begins and getattr(kind, "name", "") not in self.identities:
            raise UsageError(
                f"{where} of the map of {self.name} begins {row.begins!r}, whose elements do not"
                f" come and go: say by TraceMap(identities=…) what they stand for"
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

    def chosen(self, lines: Sequence[Any]) -> TraceMap:
        """The map by which these lines of a group are replayed: this one, or its variant's."""
        made = self.variant(lines) if self.variant is not None else None
        return self if made is None else replace(made, protocol=self.name)

    @cached_property
    def table(self) -> Mapping[str, Row]:
        """The rows, also those that are a function alone."""
        return {n: row if isinstance(row, Row) else Row(ways=row) for n, row in self.rows.items()}

    def scales(self) -> dict[str, Scale]:
        """The scales by name."""
        return {n: s if isinstance(s, Scale) else Scale(s) for n, s in self.ranks.items()}

    def of(
        self, spec: type[Spec] | Specification, rows: Mapping[str, Row | Ways] | None = None
    ) -> TraceMap:
        """
        The map of a variant of the spec: with these rows added, or in the place of its own.

        To a line whose action the variant does without, nothing leads; what may come before one,
        and the variant does without, does not come.
        """
        made = spec if isinstance(spec, Specification) else specification(spec)
        here = {a.name for a in made.actions}
        gone = {a.name for a in self.specification.actions} - here
        kept = {name: row for name, row in self.table.items() if not gone & self._taken(name)}
        lost = dict.fromkeys([*(self.rows.keys() - kept.keys()), *gone], Row(None, ways=_nothing))
        left = {name: row.without(gone) for name, row in kept.items()}
        silent = [name for name in self.silent if name not in gone]
        return replace(
            self, spec=made, rows={**lost, **left, **(rows or {})}, silent=silent,
            protocol=self.name,
        )  # fmt: skip

    def _taken(self, name: str) -> set[str]:
        """The spec's actions that a row's lines are."""
        if self.table[name].ways is not None:
            return set()
        return {a.name for a in self.actions_of(name) if a is not None}

    def row_of(self, name: str) -> Row:
        """The row of an action that a line names; NoValue if there is none, nor such an action."""
        row = self.table.get(name)
        if row is not None:
            return row
        if name == self.start:
            return Row(None)
        if name not in {a.name for a in self.specification.actions}:
            raise NoValue(str(self._no_action("the line", name, "a row for it, or Row(None)")))
        return Row()

    def actions_of(self, name: str) -> list[Action | None]:
        """The actions that a row stands for, or None; the first that is possible is meant."""
        row = self.table.get(name, Row(None) if name == self.start else Row())
        told = [row.action] if row.action is None or isinstance(row.action, str) else row.action
        found: list[Action | None] = []
        for wanted in told:
            own = name if wanted == OWN else wanted
            action = next((a for a in self.specification.actions if a.name == own), None)
            if action is None and wanted not in (None, OWN):
                raise self._no_action(f"row {name!r} of the map", str(wanted), "one of these")
            found.append(action)
        return found

    def faults(self) -> frozenset[str]:
        """The actions that are faults: as silent ones they are supposed only where needed."""
        return frozenset(a.name for a in self.specification.actions if a.kind is ActionKind.FAULT)

    def _check_ranks(self) -> None:
        known = list(dict.fromkeys(number_paths(self.specification)))
        for scale, of in self.scales().items():
            for path in of.of:
                if path not in known:
                    raise UsageError(
                        f"the scale {scale!r} of the map of {self.name} names {path!r}, which is no"
                        f" number of the spec: write some of {', '.join(known) or 'none'}"
                    )

    def _check_silent(self, where: str, silent: Sequence[str], what: str = "silent") -> None:
        if isinstance(silent, str):
            raise UsageError(f"{where}: {what}={silent!r}; write a list: [{silent!r}]")
        for name in silent:
            if name not in {a.name for a in self.specification.actions}:
                raise self._no_action(f"{what} of {where}", name, "one of these")

    def _no_action(self, where: str, name: str, write: str) -> UsageError:
        known = [a.name for a in self.specification.actions]
        near = get_close_matches(name, known, n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        return UsageError(
            f"{where} names {name!r}, which is no action of {self.specification.name}{meant}: it"
            f" has {', '.join(known)}; write {write}"
        )


def _nothing(*_: object) -> Iterable[Way]:
    return ()


def said(names: Collection[str]) -> str:
    """Names in a sentence."""
    return ", ".join(sorted(names)) or "none"
