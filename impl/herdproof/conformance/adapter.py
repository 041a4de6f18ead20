"""
The adapter: one class that real code must offer to be held to a spec.

An adapter begins the code at given sizes, has a method for each of the spec's actions under the
action's own name, and observes those of the spec's fields that can be seen. Everything else
(`stateful.py`, `edges.py`, `stories.py`, `solved.py`) is generated from spec and adapter.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import Parameter, signature
from typing import Any, ClassVar, TypeVar

from herdproof.errors import CallerError
from herdspec.language.specification import Action, Specification
from herdspec.language.surface import Property, Sort

_A = TypeVar("_A", bound="Adapter")


class Refused(Exception):
    """The code did not do what it was asked to; it is where it was. Raised by adapters' methods."""


class CannotLoad(Exception):
    """The code cannot be put into that state. Raised by `Adapter.load`."""


class AdapterError(CallerError):
    """An adapter does not fit its spec: what is wrong, and what to write instead."""


class Adapter:
    """
    Real code under the names of its spec; subclass it, and write a method for each action.

    A method gets the action's arguments (elements of the spec's sorts, values of its types), makes
    the code take that step, and returns when it has; it raises `Refused` (or one of `refusals`) if
    the code did not, or could not. Actions that the code takes by itself are named in `silent`.
    An adapter is made anew for each run, without arguments; then `begin` is called.
    """

    offered: ClassVar[Collection[str]] = ()
    """Actions that are also tried where the spec forbids them: the code must refuse them."""
    silent: ClassVar[Collection[str]] = ()
    """Actions that the code takes by itself, at any time, or when it is pumped."""
    reluctant: ClassVar[Collection[str]] = ()
    """Actions that the code may refuse where the spec allows them: it has reasons of its own."""
    undue: ClassVar[Collection[str]] = ()
    """Of the silent actions, those that nobody waits for, though the spec calls them fair."""
    disturbed: ClassVar[Mapping[str, Collection[str]]] = {}
    """Methods that are no actions (a restart): by name, the actions that they may bring about."""
    chosen: ClassVar[Mapping[str, Collection[str]]] = {}
    """By action, the parameters that the code chooses: not given to the method, but returned."""
    absent: ClassVar[Mapping[str, str]] = {}
    """Actions that never happen to this code, each with the reason; reports name them."""
    refusals: ClassVar[tuple[type[BaseException], ...]] = (Refused,)
    """Exceptions that a method raises when it brought nothing about."""
    pumped: ClassVar[bool] = False
    """True if silent actions happen within `pump` only: between calls the code is at rest."""
    follows: ClassVar[Mapping[str, Collection[str]]] = {}
    """By action, the silent ones that may follow at once, within it, though the code is pumped."""
    patience: ClassVar[float] = 0.0
    """Seconds for what was sent to arrive, before a difference counts."""
    outlives: ClassVar[bool] = False
    """True if the code lives on from one run to the next: then nothing of it is left behind."""
    timeout: ClassVar[float | None] = 10.0
    """Seconds after which a call counts as hung; None waits for ever, in the test's own thread."""

    loadable: ClassVar[Property | None] = None
    """Of which states `load` is written, if not of all: a property of one state, as `@always`."""

    begin: Callable[..., None]
    """
    `def begin(self, Client: int) -> None`: make the code, with so many elements of each sort.

    Nothing but the code's own beginning: what it is like then is observed.
    """

    def end(self) -> None:
        """Close what `begin` opened: threads, sockets, processes, files."""

    def observe(self) -> Mapping[str, Any]:
        """
        The spec's fields that can be seen, with their values now; of a map, all entries or some.

        A part's field is `part.field`. What is left out is not compared, and reports name it.
        """
        raise NotImplementedError

    def pump(self) -> None:
        """Let the code do what it has to do by itself, until it is at rest."""


class PickledAdapter(Adapter):
    """An adapter of code without threads and files, which can be pickled: so it has snapshots."""

    constant: ClassVar[Collection[str]] = ()
    """Attributes that never change once it has begun: no snapshot has them."""

    def snapshot(self) -> bytes:
        """All that may change."""
        changing = {name: of for name, of in vars(self).items() if name not in self.constant}
        return pickle.dumps(changing, pickle.HIGHEST_PROTOCOL)

    def restore(self, snapshot: bytes) -> None:
        """Be there again."""
        vars(self).update(pickle.loads(snapshot))


OWN = frozenset({
    "begin", "end", "observe", "pump", "start", "snapshot", "restore", "load", "reader", "renamed",
})  # fmt: skip
"""
Methods of an adapter that are no actions; for the last two see `exact.py`.

`start(state)` has fresh code begin in another of the spec's initial states than it does.
"""


def method_of(action: str) -> str:
    """The name of an adapter's method for an action; that of a part, `part_action`."""
    return action.replace(".", "_")


def forwards(spec: Specification) -> Callable[[type[_A]], type[_A]]:
    """
    Decorate an adapter of a simulated `world` that has methods under the names of the actions.

    Each action for which the adapter says nothing itself is handed on to the method of its name,
    elements of sorts as their indices.
    """

    def decorated(adapter: type[_A]) -> type[_A]:
        for action in spec.actions:
            name = method_of(action.name)
            if not hasattr(adapter, name) and action.name not in adapter.absent:
                setattr(adapter, name, _forwarded(name))
        return adapter

    return decorated


def _forwarded(name: str) -> Callable[..., None]:
    def method(self: Any, *arguments: Any) -> None:
        getattr(self.world, name)(*map(_indices, arguments))

    return method


def _indices(value: Any) -> Any:
    """An element's index, or those of a set of them; other values as they are."""
    if isinstance(value, set):
        return sorted(map(_indices, value))
    return value.index if isinstance(value, Sort) else value


NO_SUCH_STEP = "the code has no step of this name"
"""Why an action that a variant adds is absent."""


def varied(
    adapter: type[_A], spec: Specification, variant: Specification, **members: Any
) -> type[_A]:
    """
    A spec's adapter for a variant of it, with these `members` of its own.

    What the variant leaves out is not asked for; what it adds, and nothing does, is absent.
    """
    names = [action.name for action in variant.actions]

    def known(some: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in some if name in names)

    tables: dict[str, Any] = {
        table: known(getattr(adapter, table))
        for table in ("offered", "silent", "undue", "reluctant")
    }
    for table in ("chosen", "absent", "follows"):
        tables[table] = {n: of for n, of in getattr(adapter, table).items() if n in names}
    tables["follows"] = {name: known(some) for name, some in tables["follows"].items()}
    for name in names:
        if getattr(adapter, method_of(name), None) is None and name not in tables["silent"]:
            tables["absent"].setdefault(name, NO_SUCH_STEP)
    dropped = {method_of(a.name): None for a in spec.actions if a.name not in names}
    return type(f"Varied{adapter.__name__}", (adapter,), {**tables, **dropped, **members})


def quiet(adapter: type[_A]) -> type[_A]:
    """An adapter to which nothing is offered that its spec forbids: walks do that."""
    return type(adapter.__name__, (adapter,), {"offered": ()})


def controlled(spec: Specification, adapter: type[Adapter]) -> list[Action]:
    """The actions that a test has the code take: all but absent ones, and silent ones without a
    method.
    """

    def is_offered(action: Action) -> bool:
        has_method = getattr(adapter, method_of(action.name), None) is not None
        return action.name not in adapter.absent and (
            action.name not in adapter.silent or has_method
        )

    return [action for action in spec.actions if is_offered(action)]


def given(action: Action, adapter: type[Adapter]) -> list[tuple[str, Any]]:
    """The parameters of an action that its method gets: those that the code does not choose."""
    chosen = adapter.chosen.get(action.name, ())
    return [(name, p) for name, p in action.parameters if name not in chosen]


def is_adapter(value: object) -> bool:
    """Tells whether this is a class of adapters."""
    return isinstance(value, type) and issubclass(value, Adapter) and value is not Adapter


def check_adapter(spec: Specification, adapter: type[Adapter]) -> None:
    """Raise `AdapterError` for the first thing in which an adapter does not fit its spec."""
    if not is_adapter(adapter):
        raise AdapterError(f"{adapter!r} is no adapter: write a class that derives from Adapter")
    _check_values(adapter)
    actions = {a.name: a for a in spec.actions}
    _check_names(spec, adapter, actions)
    for action in controlled(spec, adapter):
        _check_method(spec, adapter, action)
    for name in adapter.disturbed:
        if not callable(getattr(adapter, name, None)):
            raise AdapterError(
                f"{adapter.__name__}.disturbed names {name!r}, and there is no such method:"
                f" write `def {name}(self) -> None`, or leave it out"
            )
    _check_begin(spec, adapter)
    if adapter.observe is Adapter.observe:
        raise AdapterError(
            f"{adapter.__name__} observes nothing: write `def observe(self)`, which returns the"
            f" fields that can be seen, of {', '.join(spec.rich)}"
        )
    _check_none_left(spec, adapter, actions)


def check_load(adapter: type[Adapter]) -> None:
    """Raise `AdapterError` for an adapter whose code cannot be put into a state."""
    if not callable(getattr(adapter, "load", None)):
        raise AdapterError(
            f"{adapter.__name__} cannot be put into a state: write `def load(self, state)`, which"
            f" raises CannotLoad where the code cannot be"
        )


def _check_values(adapter: type[Adapter]) -> None:
    """Check that what an adapter says beside its methods is of the right kind."""
    for table, written in (
        ("chosen", '{"take": ("j",)}'),
        ("disturbed", '{"restart": ()}'),
        ("absent", '{"expire": "why"}'),
    ):
        if not isinstance(getattr(adapter, table), Mapping):
            raise AdapterError(
                f"{adapter.__name__}.{table} is {getattr(adapter, table)!r}: write a dict, such as"
                f" {table} = {written}"
            )
    timeout: Any = adapter.timeout
    patience: Any = adapter.patience
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise AdapterError(
            f"{adapter.__name__}.timeout is {timeout!r}: write seconds, more than 0, or None"
        )
    if not (isinstance(patience, int | float) and patience >= 0):
        raise AdapterError(f"{adapter.__name__}.patience is {patience!r}: write seconds, 0 or more")


def _check_names(
    spec: Specification, adapter: type[Adapter], actions: Mapping[str, Action]
) -> None:
    """Check that every action that a table of the adapter names is one of the spec's."""
    tables = {name: getattr(adapter, name) for name in ("offered", "silent")}
    tables |= {f"chosen[{name!r}]": of for name, of in adapter.chosen.items()}
    tables |= {f"disturbed[{name!r}]": of for name, of in adapter.disturbed.items()}
    for table, of in tables.items():
        if isinstance(of, str):
            raise AdapterError(
                f"{adapter.__name__}.{table} is {of!r}, a text: write a tuple, ({of!r},)"
            )
    named = {
        "offered": [*adapter.offered], "silent": [*adapter.silent], "absent": [*adapter.absent],
        "reluctant": [*adapter.reluctant], "undue": [*adapter.undue],
        "chosen": [*adapter.chosen],
        "disturbed": [name for some in adapter.disturbed.values() for name in some],
        "follows": [*adapter.follows, *(n for some in adapter.follows.values() for n in some)],
    }  # fmt: skip
    for table, names in named.items():
        for name in names:
            if name not in actions:
                raise AdapterError(
                    f"{adapter.__name__}.{table} names {name!r}, which is no action of {spec.name};"
                    f" its actions: {', '.join(actions)}"
                )
    for name, parameters in adapter.chosen.items():
        known = [p for p, _ in actions[name].parameters]
        for parameter in parameters:
            if parameter not in known:
                raise AdapterError(
                    f"{adapter.__name__}.chosen: {name} has no parameter {parameter!r};"
                    f" its parameters: {', '.join(known) or 'none'}"
                )


def _check_method(spec: Specification, adapter: type[Adapter], action: Action) -> None:
    """Check that there is a method for an action, and that it takes what it is given."""
    name = method_of(action.name)
    wanted = [p for p, _ in given(action, adapter)]
    written = f"def {name}({', '.join(['self', *wanted])})"
    method = getattr(adapter, name, None)
    if method is None:
        raise AdapterError(
            f"{adapter.__name__} has no method for the action {action.name} of {spec.name}: write"
            f" `{written}`, or name it in `silent` (the code does it by itself) or `absent`"
        )
    if not _takes(method, len(wanted)):
        raise AdapterError(
            f"{adapter.__name__}.{name}{signature(method)} does not take what the action"
            f" {action.name} gives: write `{written}`"
        )


def _takes(method: Callable[..., Any], count: int) -> bool:
    """Tells whether a function of a class takes so many arguments beside `self`, by position."""
    try:
        signature(method).bind(None, *[None] * count)
    except TypeError:
        return False
    return True


def _check_begin(spec: Specification, adapter: type[Adapter]) -> None:
    written = f"def begin({', '.join(['self', *(f'{s}: int' for s in spec.sorts)])})"
    begin = getattr(adapter, "begin", None)
    if begin is None:
        raise AdapterError(f"{adapter.__name__} does not begin: write `{written} -> None`")
    try:
        signature(begin).bind(None, **dict.fromkeys(spec.sorts, 1))
    except TypeError:
        raise AdapterError(
            f"{adapter.__name__}.begin{signature(begin)} does not take the sizes of {spec.name}'s"
            f" sorts: write `{written} -> None`"
        ) from None


def _check_none_left(
    spec: Specification, adapter: type[Adapter], actions: Mapping[str, Action]
) -> None:
    """
    Refuse a public method that is neither an action nor a disturbance: most likely misspelt.

    What an adapter inherits from a class that is none is its own affair.
    """
    known = {*map(method_of, actions), *adapter.disturbed, *OWN, *vars(Adapter)}
    mine = [c for c in adapter.__mro__ if issubclass(c, Adapter) and c is not Adapter]
    for name, value in ((n, v) for c in mine for n, v in vars(c).items()):
        if name.startswith("_") or name in known or not _is_method(value):
            continue
        if getattr(adapter, name) is None:  # a variant's spec has no such action
            continue
        raise AdapterError(
            f"{adapter.__name__} has a method {name!r}, which is no action of {spec.name}:"
            f" name it in `disturbed` if it is a disturbance, or begin its name with an underscore"
        )


def _is_method(value: Any) -> bool:
    if not callable(value) or isinstance(value, type | staticmethod | classmethod):
        return False
    parameters = [*signature(value).parameters.values()]
    return bool(parameters) and parameters[0].kind is not Parameter.KEYWORD_ONLY
