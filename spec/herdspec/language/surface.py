"""
The words that a spec is written in.

A spec is a class derived from `Spec`: annotated fields with their initial values, actions
(`@action`), and helper methods that actions call. Properties are functions of a state (`@always`,
`@step`, `@sometimes`, `@recoverable`) that stand apart from the actions. All of it is plain Python
and runs as it looks; the other readings are made from the syntax tree (`translate.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from inspect import cleandoc
from typing import Any, ClassVar, Self, TypeVar, cast, overload

from herdspec.language.given import (
    MARK,
    decorator,
    misused,
    one_of,
    plain,
    shortened,
    unchangeable,
    whole,
)

Nat = int
"""A natural number."""


@dataclass(frozen=True)
class UpTo:
    """`Annotated[Nat, UpTo(3)]`: a natural of at most so much, in every reading."""

    top: int

    def __post_init__(self) -> None:
        """Refuse what is no such number."""
        whole("UpTo", self.top, least=0)


@dataclass(frozen=True)
class Capacity:
    """`Annotated[list[Message], Capacity(2)]`: a first-in-first-out channel of so many messages."""

    messages: int

    def __post_init__(self) -> None:
        """Refuse what is no such number."""
        whole("Capacity", self.messages, least=1)


_sizes: ContextVar[Mapping[str, int]] = ContextVar("sizes of the sorts")


class _SortType(type):
    """Makes a sort iterable: its elements, as many as the reading in hand has."""

    _elements: dict[int, Any]
    _first: dict[int, tuple[Any, ...]]
    """The first elements, by how many."""

    def __iter__(cls: type[_S]) -> Iterator[_S]:  # type: ignore[misc]
        size = _sizes.get()[cls.__name__]
        known = cls.__dict__.get("_first")
        if known is None:
            known = cls._first = {}
        if size not in known:
            known[size] = tuple([cls(i) for i in range(size)])
        return iter(known[size])

    def __call__(cls, index: int) -> Any:
        """The element with this index (0-based); always the same object."""
        found = cls.__dict__.get("_elements")
        if found is None:
            found = {}
            cls._elements = found
        if index not in found:
            found[index] = super().__call__(index)
        return found[index]


class Sort(metaclass=_SortType):
    """A symmetric set: its elements differ in nothing but their identity, and have no order."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"{type(self).__name__.lower()}{self.index + 1}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.index,))


_S = TypeVar("_S", bound=Sort)


class sizes_of_sorts:  # noqa: N801  (a context manager; as a generator it would cost thrice)
    """Within this context, `for b in Broker` runs over that many brokers."""

    __slots__ = ("_sizes", "_token")

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes

    def __enter__(self) -> None:
        self._token = _sizes.set(self._sizes)

    def __exit__(self, *_: object) -> None:
        _sizes.reset(self._token)


class ActionKind(Enum):
    """Who takes a step."""

    STEP = "step"
    """The protocol itself."""
    COMMAND = "command"
    """A user who asks for something."""
    FAULT = "fault"
    """The world: a budget of faults bounds it where states are enumerated."""


command = ActionKind.COMMAND
fault = ActionKind.FAULT


class Fairness(Enum):
    """
    The demand on a step that stays possible; for each choice of arguments by itself.

    With `.any` it is said of the action as a whole: that some choice stays possible, and that some
    choice (the same one or another) is taken at last.
    """

    WEAK = "weak"
    """It is taken at last, if it stays possible without interruption."""
    STRONG = "strong"
    """It is taken at last, if it is possible again and again."""
    WEAK_ANY = "weak, of any choice"
    STRONG_ANY = "strong, of any choice"

    @property
    def any(self) -> Fairness:
        """This fairness of any choice of arguments, instead of each."""
        return Fairness.STRONG_ANY if self.is_strong else Fairness.WEAK_ANY

    @property
    def is_strong(self) -> bool:
        """Tells whether it is enough to be possible again and again, with interruptions."""
        return self in (Fairness.STRONG, Fairness.STRONG_ANY)

    @property
    def is_of_any(self) -> bool:
        """Tells whether it is owed to the action as a whole, not to each choice of arguments."""
        return self in (Fairness.WEAK_ANY, Fairness.STRONG_ANY)


weak = Fairness.WEAK
strong = Fairness.STRONG


@dataclass(frozen=True)
class ActionMark:
    """The mark that the decorator `@action` leaves on a method."""

    kind: ActionKind
    disturbs: bool
    fair: Fairness | None = None
    starts: bool = False


_F = TypeVar("_F", bound=Callable[..., None])


@overload
def action(function: _F, /) -> _F: ...
@overload
def action(
    *, kind: ActionKind = ..., disturbs: bool | None = ..., fair: Fairness | None = ...
) -> Callable[[_F], _F]: ...
def action(
    function: _F | None = None, /, *more: Any, kind: ActionKind = ActionKind.STEP,
    disturbs: bool | None = None, fair: Fairness | None = None, **unknown: Any,
) -> _F | Callable[[_F], _F]:  # fmt: skip
    """
    Mark a method as an action: guards (`require`) and assignments, taken as one atomic step.

    `disturbs` (by default: every fault does) counts the action against the budget of faults, which
    keeps explored spaces finite. `fair` (only a step of the protocol can be) is what liveness may
    count on: `weak` or `strong` for each choice of arguments, `weak.any` or `strong.any` for the
    action as a whole. The docstring is the sentence that stories print.
    """
    _check_action(function, more, unknown)
    one_of("@action", "kind", kind, ActionKind, "kind=command or kind=fault, names without quotes")
    if fair is not None:
        one_of("@action", "fair", fair, Fairness, "fair=weak or fair=strong, names without quotes")
    if disturbs is not None:
        one_of("@action", "disturbs", disturbs, bool, "disturbs=True or disturbs=False")
    if fair and kind is not ActionKind.STEP:
        what = f"fair={fair.value} of an @action(kind={kind.value})"
        raise misused(what, f"leave it out: nothing makes a {kind.value} happen")
    mark = ActionMark(kind, kind is ActionKind.FAULT if disturbs is None else disturbs, fair)

    def note(f: _F) -> _F:
        marked = plain("@action", f)
        setattr(marked, MARK, mark)
        return cast(_F, marked)

    return note if function is None else note(function)


def _check_action(function: Any, more: tuple[Any, ...], unknown: Mapping[str, Any]) -> None:
    """Refuse what @action does not take."""
    if isinstance(function, ActionKind | Fairness):
        name = "kind" if isinstance(function, ActionKind) else "fair"
        what = f"@action({function.value})"
        raise misused(what, f"name the argument: @action({name}={function.value})")
    if more or unknown:
        what = f"`{next(iter(unknown), shortened(repr(more)[1:-1]))}` as an argument of @action"
        raise misused(what, "it takes kind=, disturbs= and fair=")


@decorator
def initial(function: _F) -> _F:
    """
    Mark a method that makes an initial state of the declared values, as an action would.

    Each choice of its parameters that its guards allow is an initial state.
    """
    setattr(function, MARK, ActionMark(ActionKind.STEP, disturbs=False, starts=True))
    return function


class Disabled(Exception):
    """A `require` did not hold: the action cannot be taken in this state."""


def require(condition: bool) -> None:
    """The action is possible only where the condition holds."""
    if not condition:
        raise Disabled


@dataclass(frozen=True)
class Each:
    """The initial value of a map: the same for every element."""

    value: Any


def each(value: Any) -> Any:
    """A map that starts with the same value for every element."""
    unchangeable("each", value)
    if isinstance(value, Each):
        raise misused(f"each({value!r})", "a map of several keys is one map: dict[tuple[A, B], …]")
    return Each(value)


class Empty(frozenset[Any]):
    """
    The initial value of a set or of a channel, and what is assigned to clear one.

    It is an empty set to Python, too, where it is joined or compared with one.
    """

    def __repr__(self) -> str:
        return "empty()"


_EMPTY = Empty()


def empty() -> Any:
    """A set without elements, or a channel without messages."""
    return _EMPTY


class Undefined(Exception):
    """A step or a property looked at a value that is not there; the message says which."""


class Expectation(Enum):
    """The demand of a property."""

    ALWAYS = "always"
    """It holds in every reachable state."""
    STEP = "step"
    """It holds between the states before and after every step."""
    SOMETIMES = "sometimes"
    """It holds in some reachable state: the system is not idle."""
    RECOVERABLE = "recoverable"
    """From every reachable state, the protocol alone can reach one where it holds."""
    EVENTUALLY = "eventually"
    """Every fair behaviour comes to a state where it holds."""
    EVENTUALLY_ALWAYS = "eventually always"
    """Every fair behaviour comes to a state from which on it holds for ever."""
    LEADS_TO = "leads to"
    """In every fair behaviour, a state of the first kind is followed by one of the second."""
    AXIOM = "axiom"
    """It is assumed of what never changes."""
    CONSTRAINT = "constraint"
    """Searches do not go on from states without it: how far is looked, and no demand."""


LIVE = (Expectation.EVENTUALLY, Expectation.EVENTUALLY_ALWAYS, Expectation.LEADS_TO)
"""Demands on behaviours without end: liveness."""


@dataclass(frozen=True)
class Property:
    """A named sentence about a spec's states; calling it evaluates the plain Python."""

    expectation: Expectation
    function: Callable[..., Any]
    lemma: bool = False
    negated: bool = False

    @property
    def name(self) -> str:
        """The function's name, with blanks: the property's sentence in short."""
        return self.function.__name__

    @property
    def sentence(self) -> str:
        """The first paragraph of the docstring."""
        return sentence(self.function)

    def __call__(self, *states: Any) -> Any:
        """Evaluate the property in a state (in two, for a step); of `leads_to`, both conditions."""
        found = self.function(*states)
        return not found if self.negated else found


def sentence(function: Callable[..., Any]) -> str:
    """The sentence that a function's docstring opens with."""
    text = cleandoc(function.__doc__ or function.__name__.replace("_", " "))
    return " ".join(text.split("\n\n")[0].split())


@decorator
def always(function: Callable[[Any], bool]) -> Property:
    """An invariant: it holds in every reachable state."""
    return Property(Expectation.ALWAYS, function)


@decorator
def never(function: Callable[[Any], bool]) -> Property:
    """A condition that holds in no reachable state."""
    return Property(Expectation.ALWAYS, function, negated=True)


@decorator
def lemma(function: Callable[[Any], bool]) -> Property:
    """An invariant that proofs of others need; it is checked like any other."""
    return Property(Expectation.ALWAYS, function, lemma=True)


@decorator
def step(function: Callable[[Any, Any], bool]) -> Property:
    """A promise about every step: it relates the state before to the state after."""
    return Property(Expectation.STEP, function)


@decorator
def sometimes(function: Callable[[Any], bool]) -> Property:
    """A witness must exist: an invariant over a system that cannot move is vacuous."""
    return Property(Expectation.SOMETIMES, function)


@decorator
def recoverable(function: Callable[[Any], bool]) -> Property:
    """From every reachable state, such a state can be reached without faults or commands."""
    return Property(Expectation.RECOVERABLE, function)


@decorator
def eventually(function: Callable[..., bool]) -> Property:
    """
    A condition that every fair behaviour comes to.

    Further parameters after the state range over elements: it holds for each of them.
    """
    return Property(Expectation.EVENTUALLY, function)


@decorator
def eventually_always(function: Callable[..., bool]) -> Property:
    """
    A condition that every fair behaviour comes to for ever: from some state on, it holds in each.

    Further parameters after the state range over elements: it holds for each of them.
    """
    return Property(Expectation.EVENTUALLY_ALWAYS, function)


@decorator
def leads_to(function: Callable[..., tuple[bool, bool]]) -> Property:
    """
    Whenever the first of the two conditions that it returns, at that time or later the second.

    Further parameters after the state range over elements: it holds for each of them.
    """
    return Property(Expectation.LEADS_TO, function)


@decorator
def axiom(function: Callable[[Any], bool]) -> Property:
    """An assumption on fields that no action changes; initial states without it do not count."""
    return Property(Expectation.AXIOM, function)


@decorator
def constraint(function: Callable[[Any], bool]) -> Property:
    """
    A bound on searches: states without it are looked at, but not gone on from (TLA+: CONSTRAINT).

    It is no demand, and proofs do not assume it; what a search says holds within it.
    """
    return Property(Expectation.CONSTRAINT, function)


class Spec:
    """The base of every spec; defining a subclass checks it against the language."""

    __specification__: ClassVar[Any]
    __statement__: ClassVar[Any]

    def __init_subclass__(cls, *, variant: bool = False) -> None:
        """Read the class's syntax tree, and refuse what lies outside the language."""
        from herdspec.language.specification import define

        if not variant:  # a variant has no class statement, and is read by who makes it
            cls.__specification__ = define(cls, sys._getframe(1))

    def __setattr__(self, name: str, value: Any) -> None:
        """Assignment copies: two fields never share a map. A map has its keys, and no others."""
        old = self.__dict__.get(name)
        if isinstance(old, dict) and isinstance(value, dict) and len(value) < len(old):
            raise KeyError(f"an entry of {name} was assigned at no key of its map")
        self.__dict__[name] = twin(self._emptied(name) if value is _EMPTY else value)

    def _emptied(self, name: str) -> Any:
        return type(self.__dict__[name])()

    def copy(self) -> Self:
        """A state that shares nothing with this one."""
        made = object.__new__(type(self))
        made.__dict__.update((name, twin(value)) for name, value in self.__dict__.items())
        return made

    def copy_but(self, copiers: Mapping[str, Callable[[Any], Any]]) -> Self:
        """A state that shares all with this one but these fields: nothing else may be changed."""
        made = object.__new__(type(self))
        values = made.__dict__
        values.update(self.__dict__)
        for name, copied in copiers.items():
            values[name] = copied(values[name])
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({inner})"


def twin(value: Any) -> Any:
    """A value that shares nothing changeable with this one."""
    if _is_plain(type(value)):
        return value
    if isinstance(value, dict) and not all(map(_is_plain, {*map(type, value.values())})):
        return {key: twin(v) for key, v in value.items()}
    return value.copy()


_plain: dict[type, bool] = {}


def _is_plain(kind: type) -> bool:
    """Tells whether values of this type cannot be changed, and may be shared."""
    found = _plain.get(kind)
    if found is None:
        found = _plain[kind] = not issubclass(kind, list | set | dict | Spec)
    return found
