"""
Rows of a trace map, made ready for one group's replay: a line becomes terms of the spec.

What a row says is looked up once, however many lines it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from types import MethodType
from typing import Any

from herdproof.conformance.traces.line import TraceError, TraceLine
from herdproof.conformance.traces.mapping import Any_, DecodedLine, Source, TraceMap, said
from herdproof.conformance.traces.standing import Former, Standing
from herdproof.conformance.traces.values import Claim, NoValue, Values, unlike
from herdspec.check.conformance.follow import ELSE, Call, StepConstraint, Way, fits
from herdspec.check.running.run import Machine, sets_among
from herdspec.language.specification import Action
from herdspec.language.types import SetOf, SortOf

OF_ALL = frozenset({"node", "role", "group", "zxid", "sequence", "time_ns"})
"""Names that every line has, and that a map may use."""
_ENTRY = re.compile(r"([\w.]+)(?:\[(.+)\])?")
_MISSING = object()
Get = Callable[[Any], Any]
"""Function that reads something from a line."""
Entry = tuple[str, str, list[str], Get]
"""A field that lines show, how the map writes that, the names of its keys, and its value."""


class Bindings:
    """The rows of a map, for the lines of one group."""

    def __init__(self, table: TraceMap, values: Values, lines: Sequence[Any]) -> None:
        self.table = table
        self.values = values
        self.group = table.group(values, lines) if table.group is not None else None
        self._of: dict[str, Binding] = {}
        self.known = self._of.get
        """The row of an action, if a line of it has been seen."""
        self._choices: dict[str, list[tuple[Any, ...]]] = {}
        self._begun: dict[str, dict[Hashable, None]] = {sort: {} for sort in table.identities}
        """By sort, the keys of all that begins."""
        self.machine: Machine | None = None
        self.shown: set[str] = set()
        """The fields that lines show."""

    def of(self, line: Any) -> Binding:
        """The row of a line; raises `TraceError`, with the line's place."""
        binding = self._of.get(line.action)
        if binding is None:
            try:
                binding = self._of[line.action] = Binding(self, line.action)
            except NoValue as problem:
                raise TraceError(f"{line.place}: {problem}") from None
        return binding

    def gather(self, lines: Sequence[Any]) -> None:
        """Find the names and numbers of lines, and what begins; from now on they are settled."""
        begins = {name for name, row in self.table.table.items() if row.begins}
        for line in lines if self.group is None else ():
            told = self.of(line).told(line, gather=True)
            self.shown.update(claim.label for claim in (told.claims if told else ()))
        for line in lines if begins else ():
            if line.action in begins and (key := (of := self.of(line)).key(line)) is not None:
                self._begun[of.begun][key] = None
        self.values.settle()
        for binding in self._of.values():
            binding.settle()

    @property
    def rows(self) -> Iterable[Binding]:
        """The rows that there are lines of."""
        return self._of.values()

    def sizes(self, factor: int = 1) -> dict[str, int]:
        """The number of elements of each sort to have; `factor` times those that come and go."""
        sizes = {sort: max(1, len(names)) for sort, names in self.values.names.items()}
        for sort, begun in self._begun.items():
            owner = self.table.identities[sort].owner
            owners = len({owner(key) for key in begun}) if owner is not None else 1
            sizes[sort] = max(1, min(len(begun), 2 * owners * factor))
        return sizes

    def begin(self, machine: Machine) -> None:
        """From now on lines are those of a replay in this machine."""
        self.machine = machine
        for sort, identities in self.table.identities.items():
            elements = machine.elements(sort)
            self.values.standing[sort] = Standing(elements, identities.owner)

    def method(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the map; of a map with a group, a method of that."""
        return function if self.group is None else MethodType(function, self.group)

    def choices(self, action: Action) -> list[tuple[Any, ...]]:
        """Every choice of an action's arguments."""
        if action.name not in self._choices:
            assert self.machine is not None, "a replay has begun"
            self._choices[action.name] = [
                self.machine.arguments(action, numbers)
                for numbers in self.machine.ground.choices(action)
            ]
        return self._choices[action.name]


class Binding:
    """One row."""

    def __init__(self, of: Bindings, name: str) -> None:
        table, method = of.table, of.method
        self._bindings, self._table, self._values = of, table, of.values
        self.row = row = table.row_of(name)
        self.begins = row.begins
        """The parameter that begins to stand for something; empty if none does."""
        self._actions = table.actions_of(name)
        self.action = next((a for a in self._actions if a is not None), None)
        """Action that the line is called by; None if it has none."""
        self._before = [table.specification.action(name) for name in row.before]
        self._is_told = any(issubclass(of, TraceLine) for of in table.formats.values())
        """True if lines have arguments and fields that were seen, as those of version 2 have."""
        self._stand()
        self._entries = self._places(row.seen) if isinstance(row.seen, Mapping) else []
        parameters = {name for name, *_ in (*self._plain, *self._standing)}
        keys = {key for *_, keys, _ in self._entries for key in keys}
        self._is_shown_anew = self._is_told or not keys <= parameters
        """True if what a line shows depends on more of it than parameters, and entries' values."""
        self._give = several([get for *_, get in self._plain])
        self._show = several([] if self._is_shown_anew else [get for *_, get in self._entries])
        self._known: dict[Any, Any] = {}
        """Results of earlier lines, by the values that they were made of."""
        self._claimed: dict[Any, Sequence[Claim]] = {}
        """Claims of earlier lines, by what these showed."""
        self._ways = method(row.ways) if row.ways is not None else None
        self._claims = method(row.claims) if row.claims is not None else None
        self._note = method(row.note) if row.note is not None else None
        self.perhaps = method(row.perhaps) if row.perhaps is not None else None
        self.then = method(row.then) if row.then is not None else None
        self.named = method(row.named) if row.named is not None else None
        self._silent = (*table.silent, *row.silent)

    def _stand(self) -> None:
        """Find where the parameters stand: those of values, and those of what comes and goes."""
        row, table = self.row, self._table
        self._plain: list[tuple[str, Any, str, Get]] = []
        """Name, type, path, and how a line tells the value."""
        self._standing: list[tuple[str, Get, Any]] = []
        """Name, how a line tells the key, type."""
        taken = [a for a in (*self._actions, *self._before) if a is not None]
        for name, kind, path in {p[0]: p for a in taken for p in self._typed(a)}.values():
            identities = table.identities.get(kind.name) if isinstance(kind, SortOf) else None
            own = identities.of if identities is not None else name
            source = row.arguments.get(name, table.arguments.get(name, own))
            if name == row.begins:
                self.begun: str = kind.name
                self._key = self._get(source)
            if isinstance(source, Any_):
                continue
            if identities is not None:
                self._standing.append((name, self._get(source), kind))
            else:
                self._plain.append((name, kind, path, self._get(source)))

    def _typed(self, action: Action) -> list[tuple[str, Any, str]]:
        """An action's parameters: name, type, path."""
        sets = sets_among(action, self._table.specification.shape)
        kinds: list[tuple[str, Any]] = [(name, p.kind) for name, p in action.parameters]
        return [
            (name, SetOf(kind.keys) if name in sets else kind, f"{action.name}.{name}")
            for name, kind in kinds
        ]

    def _get(self, source: Source) -> Get:
        """The function that reads the value at a place of a line."""
        if isinstance(source, str):
            return partial(found, source=source) if self._is_told else attrgetter(source)
        assert not isinstance(source, Any_), "ANY is looked for nowhere"
        return self._bindings.method(source)

    def _places(self, seen: Mapping[str, Source]) -> list[Entry]:
        """The entries of fields that lines show, and where their values stand."""
        places = []
        for entry, source in seen.items():
            parsed = _ENTRY.fullmatch(entry)
            if parsed is None:
                raise NoValue(f"Row(seen=…) says {entry!r}: write `field`, or `field[NAME]`")
            keys = [key.strip() for key in parsed[2].split(",")] if parsed[2] else []
            places.append((parsed[1], entry, keys, self._get(source)))
        return places

    @property
    def is_step(self) -> bool:
        """True if its lines are steps of the spec, whichever they count as."""
        return self.action is not None or (self.row.ways is not None and self.named is None)

    # ── A line ──────────────────────────────────────────────────────────────────────────────

    def key(self, line: Any) -> Any:
        """The key of the thing that begins with a line; None: nothing that the spec knows."""
        return self._key(line)

    def settle(self) -> None:
        """From now on names and numbers are what they will be."""
        self._known.clear()
        self._claimed.clear()

    def told(
        self, line: Any, states: Sequence[Any] = (), *, gather: bool = False
    ) -> DecodedLine | None:
        """
        A line in the spec's terms; None where it is no step. Raises `TraceError`.

        To `gather` is to find names and numbers, before any of them is settled.
        """
        try:
            if self.begins and self._key(line) is None:
                return None
            given = self._give(line)
            if self._standing:
                elements = self._elements(line, given, states, gather=gather)
                if elements is None:
                    return None
                given += elements
            told = DecodedLine(line, *self._made(line, given))
            if self._is_told:
                self._check_arguments(line)
            if self._is_shown_anew:
                told.claims = self._shown(line, told.arguments)
        except NoValue as problem:
            raise TraceError(f"{line.place}: {problem}") from None
        if self._note is not None and not gather and self._note(told) is False:
            return None
        return told

    def _elements(
        self, line: Any, given: tuple[Any, ...], states: Sequence[Any], *, gather: bool
    ) -> tuple[Any, ...] | None:
        """The elements that stand for what the line is about; None where one is of nothing."""
        elements: tuple[Any, ...] = ()
        for name, get, kind in self._standing:
            if gather:
                element = kind.cls(0)  # who stands for what is not known yet
            elif name == self.begins:
                told = DecodedLine(line, self._arguments(line, given + elements), self._values)
                element = self._begin(told, states)
            else:
                element = self._values.standing[kind.name].get(get(line))
            if element is None:
                return None
            elements += (element,)
        return elements

    def _made(
        self, line: Any, given: tuple[Any, ...]
    ) -> tuple[dict[str, Any], Values, Sequence[Claim], StepConstraint | None]:
        """Everything that is told by a line of these values, but for the line itself."""
        key = given + self._show(line)
        try:
            return self._known[key]  # type: ignore[no-any-return]
        except (KeyError, TypeError):  # it is new, or cannot be looked up
            pass
        arguments = self._arguments(line, given)
        claims = () if self._is_shown_anew else self._shown(line, arguments)
        led = None
        if self._ways is None and self._bindings.machine is not None:
            fitting = partial(unlike, claims) if claims else fits
            led = StepConstraint(self._calls(arguments), fitting, every=True, silent=self._silent)
        made = (arguments, self._values, claims, led)
        with suppress(TypeError):  # a list among what is given
            self._known[key] = made
        return made

    def _arguments(self, line: Any, given: tuple[Any, ...]) -> dict[str, Any]:
        """The parameters of these values; of what comes and goes, as far as it is given."""
        arguments: dict[str, Any] = {}
        for (name, kind, path, _), of in zip(self._plain, given, strict=False):
            if of is _MISSING:
                raise self._untold(name, line)
            arguments[name] = self._values.value(kind, of, path)
        elements = given[len(self._plain) :]
        arguments |= {s[0]: element for s, element in zip(self._standing, elements, strict=False)}
        return arguments

    def _untold(self, name: str, line: Any) -> NoValue:
        return NoValue(
            f"it does not tell the parameter {name!r} of {line.action}: write it ({name}=…), or"
            f" say in the map where it stands, or that it may be anything:"
            f" Row(arguments={{{name!r}: ANY}})"
        )

    def _begin(self, told: DecodedLine, states: Sequence[Any]) -> Any:
        """An element stands for what the line is about."""
        is_gone = self._bindings.method(self._table.identities[self.begun].is_gone)

        def gone(former: Former) -> bool:
            return all(is_gone(told, former, state) for state in states)

        return self._values.standing[self.begun].begin(self._key(told.line), gone)

    def _check_arguments(self, line: TraceLine) -> None:
        """Refuse an argument that is no parameter, in a line of which no map looks elsewhere."""
        row, action = self.row, self.action
        if action is None or line.action != action.name or self._table.arguments:
            return
        if row.arguments or row.ways or isinstance(row.seen, Mapping):
            return
        names = [name for name, _ in action.parameters]
        for name in line.arguments:
            if name not in names:
                raise NoValue(
                    f"{name!r} is no parameter of {action.name}, which has {said(names)}: write one"
                    f" of these, or say in a row of the map where they stand"
                )

    def _shown(self, line: Any, arguments: Mapping[str, Any]) -> Sequence[Claim]:
        """The claims of what a line shows."""
        seen, values = self.row.seen, self._values
        if self._entries:
            entries = tuple([self._entry(line, arguments, entry) for entry in self._entries])
            try:
                return self._claimed[entries]
            except (KeyError, TypeError):
                pass
            shown = [(name, keyed(keys, of)) for name, keys, of in entries if of is not _MISSING]
            claims = [claim for name, of in shown for claim in values.claims(name, of)]
            with suppress(TypeError):
                self._claimed[entries] = claims
            return claims
        if not self._is_told:
            return ()
        names = line.seen if seen is None else [name for name in seen if name in line.seen]
        return [claim for name in names for claim in values.claims(name, line.seen[name])]

    @staticmethod
    def _entry(line: Any, arguments: Mapping[str, Any], entry: Entry) -> Any:
        """A field, the key of an entry of it (a parameter, or what stands there), its value."""
        name, written, keys, get = entry
        of = get(line)
        at = tuple([arguments[k] if k in arguments else found(line, k) for k in keys])
        if _MISSING in at and of is not _MISSING:
            raise NoValue(f"Row(seen=…) says {written!r}, and the line tells no {', '.join(keys)}")
        return name, at, of

    # ── The way there ───────────────────────────────────────────────────────────────────────

    def led(self, told: DecodedLine) -> StepConstraint:
        """The step constraint that a line puts on the spec."""
        led = told.led
        if led is not None and self._claims is None and not self._is_shown_anew:
            return led
        claims = partial(self._unlike, told) if told.claims or self._claims is not None else fits
        if led is None:
            assert self._ways is not None, "else a table says the ways"
            ways: Any = partial(self._ways, told)
        else:
            ways = led.ways
        return StepConstraint(ways, claims, every=True, silent=self._silent, prompt=self.row.prompt)

    def _unlike(self, told: DecodedLine, state: Any) -> Sequence[str]:
        """Where a state is not as the line shows it."""
        differing = unlike(told.claims, state) if told.claims else []
        if self._claims is not None:
            differing += self._claims(told, state)
        return differing

    def _calls(self, told: Mapping[str, Any]) -> list[Way]:
        """Each action with the arguments that the line tells, and any others; the first first."""
        ways: list[Way] = []
        prefixes: list[Way] = [[], *([call] for a in self._before for call in self._taken(a, told))]
        for prefix in prefixes:
            for action in self._actions:
                if ways:
                    ways.append(ELSE)
                if action is None:
                    ways.append([*prefix])
                else:
                    ways += [[*prefix, call] for call in self._taken(action, told)]
        return ways

    def _taken(self, action: Action, arguments: Mapping[str, Any]) -> list[Call]:
        """An action with every choice of arguments that the line allows."""
        names = [name for name, _ in action.parameters]
        if all(name in arguments for name in names):
            return [(action.name, tuple(arguments[name] for name in names))]
        known = [(k, arguments[name]) for k, name in enumerate(names) if name in arguments]
        return [
            (action.name, choice)
            for choice in self._bindings.choices(action)
            if all(choice[k] == value for k, value in known)
        ]


def several(gets: Sequence[Get]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that reads from a line what each of some reads."""
    match gets:
        case []:
            return lambda _: ()
        case [get]:
            return lambda line: (get(line),)
    return lambda line: tuple([get(line) for get in gets])


def keyed(keys: Sequence[Any], of: Any) -> Any:
    """A value, or the one entry of a map that has it at these keys."""
    if not keys:
        return of
    return [[keys[0] if len(keys) == 1 else list(keys), of]]


def found(line: Any, source: str) -> Any:
    """The value at a place of a line; `_MISSING` if there is none."""
    if not isinstance(line, TraceLine):
        return getattr(line, source, _MISSING)
    if source in OF_ALL and source not in line.arguments:
        return getattr(line, source)
    holder, _, name = source.partition(".")
    if name and holder in ("seen", "arguments"):
        return getattr(line, holder).get(name, _MISSING)
    return line.arguments.get(source, _MISSING)
