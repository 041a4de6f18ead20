"""
Adapters of code that is one part of what its spec describes: the spec itself plays the others.

Each action is a step of a copy of the spec. What happens with it to the code, if anything, is a
method `_action`; what the code answers is put into the copy, whose others go on with that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from herdproof.conformance.adapter import PickledAdapter
from herdspec.check.running.run import machine
from herdspec.language.specification import Specification
from herdspec.language.surface import Disabled, sizes_of_sorts


class BesideTheSpec(PickledAdapter):
    """
    Code beside a copy of its spec; write `_action` for each action that the code takes part in.

    Such a method gets the action's arguments, and returns what the code chose, if it chooses
    anything: a tuple of more than one. Before and after the step of the copy, `_begin_step` and
    `_end_step` are called.
    """

    timeout = None
    constant = ("_machine",)
    others: ClassVar[Specification]
    """The spec of which the copy is a state."""
    same: ClassVar[Mapping[str, str]] = {}
    """Actions that are to the code what another action, or method, is: by name the other's."""

    def _open(self, **sizes: int) -> None:
        """Begin the copy of the spec, at these sizes."""
        self._sizes = sizes
        self._machine = machine(self.others, **sizes)
        with sizes_of_sorts(sizes):
            self._s: Any = self._machine.initial()
        self._took: list[str] = []
        """The silent actions that the code took within the present step."""

    def start(self, state: Any) -> None:
        """Begin in another initial state of the spec."""
        self._s = state.copy()

    def observe(self) -> dict[str, Any]:
        """The fields that the code shows."""
        with sizes_of_sorts(self._sizes):
            return self._seen()

    def pump(self) -> None:
        """Let the code do what it has to do by itself, and the copy of the spec the same."""
        with sizes_of_sorts(self._sizes):
            self._go_on()
            self._follow()

    def _take(self, action: str, arguments: tuple[Any, ...]) -> Any:
        """Take a step: the code's, if it is one, and the spec's; returns what the code chose."""
        before = self._s.copy()
        self._begin_step()
        act: Callable[..., Any] | None = getattr(self, f"_{self.same.get(action, action)}", None)
        chose = act(*arguments) if act is not None else None
        chosen = chose if isinstance(chose, tuple) else () if chose is None else (chose,)
        self._step(action, (*arguments, *chosen))
        if act is not None:
            self._end_step(before)
        self._follow()
        return chose

    def _step(self, action: str, arguments: tuple[Any, ...]) -> None:
        """Take a step of the spec; raises `Disabled`, and changes nothing, if it is impossible."""
        after = self._s.copy()
        self._machine.method(after, action, arguments)
        self._s = after

    def _follow(self) -> None:
        """Take the steps of the spec that the code took by itself."""
        took, self._took = self._took, []
        for action in took:
            try:
                self._step(action, ())
            except Disabled:
                if not self._is_nothing(action):
                    raise

    # ── To be written ───────────────────────────────────────────────────────────────────────

    def _seen(self) -> dict[str, Any]:
        """Return the fields that the code shows, and of the copy what others were answered."""
        raise NotImplementedError

    def _go_on(self) -> None:
        """Let the code do what it has to do by itself."""

    def _begin_step(self) -> None:
        """Prepare for what the code will answer."""

    def _end_step(self, before: Any) -> None:
        """Put into the copy what the code has answered, and nobody else; it was so `before`."""

    def _is_nothing(self, action: str) -> bool:
        """Tell whether a silent action that the spec does not allow now is no step of it."""
        del action
        return False


_B = TypeVar("_B", bound=BesideTheSpec)


def beside(spec: Specification) -> Callable[[type[_B]], type[_B]]:
    """Decorate an adapter: each action that is not silent takes a step of the code and the spec."""

    def decorated(adapter: type[_B]) -> type[_B]:
        adapter.others = spec
        for action in spec.actions:
            if action.name not in adapter.silent:
                setattr(adapter, action.name, _method(action.name))
        return adapter

    return decorated


def _method(action: str) -> Callable[..., Any]:
    def method(self: BesideTheSpec, *arguments: Any) -> Any:
        with sizes_of_sorts(self._sizes):
            return self._take(action, arguments)

    return method
