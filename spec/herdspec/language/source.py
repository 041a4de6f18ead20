"""Where a function's text stands, and which names it can see: what the translator reads."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, EnumMeta
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from herdspec.language.errors import SpecError
from herdspec.language.surface import Sort, sentence
from herdspec.language.types import BOOL, NAT, EnumOf, MapOf, Option, SortOf, Type

ADVICE = "the types are bool, Nat, an Enum, a Sort, Optional of these, and dict from a Sort"


@dataclass(frozen=True, eq=False)
class Function:
    """A function's syntax tree with the names that it sees; `file` and `line` are its place."""

    name: str
    tree: ast.FunctionDef
    names: Mapping[str, Any]
    file: str
    python: Callable[..., Any]

    @property
    def line(self) -> int:
        """The line (1-based) of its `def`."""
        return self.tree.lineno

    @property
    def sentence(self) -> str:
        """What its docstring says first."""
        return sentence(self.python)

    def refuse(self, at: ast.AST, construct: str, advice: str) -> SpecError:
        """The error to raise about a construct at this place."""
        return SpecError(self.file, getattr(at, "lineno", self.line), construct, advice)

    def lookup(self, name: str) -> Any:
        """What a global name means where the function was defined; KeyError if nothing."""
        for names in (self.names, self.python.__globals__, vars(builtins)):
            if name in names:
                return names[name]
        raise KeyError(name)

    def annotation(self, at: ast.AST, text: ast.expr | None) -> Type:
        """The type that an annotation names."""
        if text is None:
            raise self.refuse(at, "a parameter without a type", "annotate it")
        return read_type(self.evaluate(text), lambda what: self.refuse(at, what, ADVICE))

    def evaluate(self, expression: ast.expr) -> Any:
        """The Python value of an annotation or of a constant's name."""
        code = compile(ast.Expression(expression), self.file, "eval")
        seen = {**vars(builtins), **self.python.__globals__, **self.names}
        try:
            return eval(code, seen)
        except NameError as error:
            raise self.refuse(expression, str(error), "define it before the spec") from None


def function_of(python: Callable[..., Any], names: Mapping[str, Any]) -> Function:
    """Read a function's source."""
    file = inspect.getsourcefile(python) or "<unknown>"
    lines, first = inspect.getsourcelines(python)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise SpecError(file, first, "something that is no `def`", "write a plain function")
    return Function(python.__name__, definition, names, file, python)


def read_type(hint: Any, refuse: Callable[[str], SpecError]) -> Type:
    """The type of the spec language that a Python annotation stands for."""
    if hint is bool:
        return BOOL
    if hint is int:
        return NAT
    if isinstance(hint, EnumMeta) and issubclass(hint, Enum):
        return EnumOf(hint)
    if isinstance(hint, type) and issubclass(hint, Sort):
        return SortOf(hint.__name__)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and len(args) == 2 and NoneType in args:
        inner = read_type(args[0] if args[1] is NoneType else args[1], refuse)
        if not isinstance(inner, MapOf | Option):
            return Option(inner)
    if origin is dict:
        key, value = read_type(args[0], refuse), read_type(args[1], refuse)
        if isinstance(key, SortOf) and not isinstance(value, MapOf):
            return MapOf(key, value)
    raise refuse(f"the type {hint!r}")
