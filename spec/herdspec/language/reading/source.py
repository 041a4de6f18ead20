"""Finds a function's text, and the names that it can see: what the translator reads."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum, EnumMeta, Flag
from functools import lru_cache
from types import CellType, CodeType, FrameType, FunctionType, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from herdspec.language.errors import SpecError
from herdspec.language.reading.bodies import check_alone, check_class, text_of, tree_of
from herdspec.language.rich import parts
from herdspec.language.surface import Capacity, Sort, UpTo, sentence
from herdspec.language.types import (
    BOOL,
    NAT,
    ChannelOf,
    EnumOf,
    Key,
    MachineOf,
    Option,
    OptionalRecord,
    Range,
    RecordOf,
    Rich,
    Scalar,
    SetOf,
    SortOf,
    Table,
    is_key,
    is_scalar,
    said,
)

ADVICE = (
    "the types are bool, Nat, an Enum, a Sort, a frozen dataclass of these, Optional of these, "
    "set and dict from Sorts and Enums, channels, and other Specs"
)


@dataclass(frozen=True, eq=False)
class Function:
    """A function's syntax tree with the names that it sees; `file` and `line` are its place."""

    name: str
    tree: ast.FunctionDef
    names: Mapping[str, Any] = field(repr=False)
    file: str
    python: Callable[..., Any]

    @property
    def line(self) -> int:
        """The line (1-based) of its `def`."""
        return self.tree.lineno

    @property
    def sentence(self) -> str:
        """The first sentence of its docstring."""
        return sentence(self.python)

    def refuse(self, at: ast.AST, construct: str, advice: str) -> SpecError:
        """The error to raise about a construct at this place."""
        return SpecError(self.file, getattr(at, "lineno", self.line), construct, advice)

    def lookup(self, name: str) -> Any:
        """The meaning of a name that is no local one in the function; KeyError if it has none."""
        if name not in _assigned(self.tree):
            for names in (self.outer_names(name), self.names):
                if name in names:
                    return names[name]
        raise KeyError(name)

    def outer_names(self, name: str) -> Mapping[str, Any]:
        """Where Python finds a name that is no local one, as it stands now; empty if nowhere."""
        enclosed = self._enclosed if name in self.python.__code__.co_freevars else {}
        for names in (enclosed, self.python.__globals__, vars(builtins)):
            if name in names:
                return names
        return {}

    @property
    def _enclosed(self) -> dict[str, Any]:
        """The names of enclosing functions that it uses."""
        names, cells = self.python.__code__.co_freevars, self.python.__closure__ or ()
        found = zip(names, cells, strict=True)
        return {name: cell.cell_contents for name, cell in found if cell != CellType()}

    def annotation(self, at: ast.AST, text: ast.expr | None) -> Rich:
        """The type that an annotation names."""
        if text is None:
            raise self.refuse(at, "a parameter without a type", "annotate it")
        hint = self.evaluate(text)
        if isinstance(hint, str):  # an annotation in quotes
            hint = self.evaluate(ast.parse(hint, mode="eval").body)
        return read_type(hint, lambda what: self.refuse(at, what, ADVICE), self.names)

    def evaluate(self, expression: ast.expr) -> Any:
        """The Python value of an annotation or of a constant's name."""
        code = compile(ast.Expression(expression), self.file, "eval")
        seen = [self.names, self.python.__globals__]
        if "<locals>" in self.python.__qualname__:
            seen.reverse()
        try:
            return eval(code, {**vars(builtins), **seen[0], **seen[1], **self._enclosed})
        except SpecError as error:  # of a word inside of it, which knows no place
            raise self.refuse(expression, error.construct, error.advice) from None
        except Exception as error:
            raise self.refuse(expression, str(error), "define it before the spec") from None


@lru_cache(maxsize=4096)
def _assigned(tree: ast.FunctionDef) -> frozenset[str]:
    """A function's local names: Python never looks for a global one of the same name."""
    nodes = [*ast.walk(tree)]
    comprehensions = (c for c in nodes if isinstance(c, ast.comprehension))
    inner = {n for c in comprehensions for n in ast.walk(c.target)}
    stored = (n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return frozenset(n.id for n in stored if n not in inner)


def function_of(python: Callable[..., Any], names: Mapping[str, Any]) -> Function:
    """Read a function's source."""
    code: CodeType | None = getattr(inspect.unwrap(python), "__code__", None)
    if code is None:
        raise SpecError("<unknown>", 1, f"{python!r}, which is no function", "write a function")
    file = inspect.getsourcefile(code) or code.co_filename
    linecache.lazycache(file, getattr(python, "__globals__", {}))
    found = definitions(file).get((code.co_firstlineno, code.co_name))
    plain = isinstance(python, FunctionType) and python.__code__ is code
    if not plain or not isinstance(found, ast.FunctionDef):
        what = f"`{code.co_name}`, which is no plain `def` in a file"
        raise SpecError(file, code.co_firstlineno, what, "write a function, without decorators")
    function = Function(python.__name__, found, names, file, python)
    check_alone(file, found)
    a = found.args
    if a.posonlyargs or a.vararg or a.kwonlyargs or a.kwarg or a.defaults:
        what = f"the parameters of `{found.name}`"
        raise function.refuse(found, what, "write plain ones, without *, / or default")
    return function


def class_of(name: str, frame: FrameType) -> tuple[str, ast.ClassDef]:
    """The file and the syntax tree of the class statement that this frame executes."""
    file = inspect.getsourcefile(frame) or frame.f_code.co_filename
    linecache.lazycache(file, frame.f_globals)  # from an archive, as Spark ships modules
    for node in definitions(file).values():
        if isinstance(node, ast.ClassDef) and (node.name, node.lineno) == (name, frame.f_lineno):
            return file, node
    advice = "write it in a file, or read it by from_source"
    raise SpecError(file, frame.f_lineno, f"the class {name} without a source text", advice)


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(file: str) -> Mapping[tuple[int, str], Definition]:
    """Every definition in a file, by its first line (decorators included) and its name."""
    return _definitions(text_of(file))


@lru_cache(maxsize=64)
def _definitions(text: str) -> Mapping[tuple[int, str], Definition]:
    found = (node for node in ast.walk(tree_of(text)) if isinstance(node, Definition))
    return {
        (min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.name): node
        for node in found
    }


Refuse = Callable[[str], SpecError]


def read_type(hint: Any, refuse: Refuse, names: Mapping[str, Any]) -> Rich:
    """The type of the spec language that a Python annotation stands for."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is dict and len(args) == 2:
        value = read_type(args[1], refuse, names)
        if not isinstance(value, Table):
            return Table(_keys(args[0], refuse, names), value)
        raise refuse("a dict of dicts; write dict[tuple[A, B], …]")
    if origin is set and len(args) == 1:
        if is_dataclass(args[0]):
            record = _record(args[0], refuse, names)
            return SetOf(_flat_keys(record, refuse), record)
        return SetOf(_keys(args[0], refuse, names))
    if isinstance(hint, type) and hasattr(hint, "__specification__"):
        return MachineOf(hint.__specification__.shape)
    if origin is Annotated and len(args) != 2:
        raise refuse(f"{len(args) - 1} annotations; write one, UpTo(n) or Capacity(n)")
    if origin is Annotated and isinstance(args[1], Capacity):
        item = read_type(get_args(args[0])[0], refuse, names)
        if get_origin(args[0]) is list and (is_scalar(item) or isinstance(item, RecordOf)):
            return ChannelOf(item, args[1].messages)
    return _item(hint, refuse, names)


def _item(hint: Any, refuse: Refuse, names: Mapping[str, Any]) -> Rich:
    """A scalar, a record, or an optional one of these."""
    if hint is bool:
        return BOOL
    if hint is int:
        return NAT
    if isinstance(hint, EnumMeta) and issubclass(hint, Enum):
        if isinstance(hint.__eq__, FunctionType):
            raise refuse(f"the class {hint.__name__} with an `__eq__` of its own; leave it out")
        # Members of a Flag can be joined to what is none of its members.
        if issubclass(hint, Flag) or not len(hint):
            raise refuse(f"the class {hint.__name__}, a Flag or without members; write an Enum")
        return EnumOf(hint)
    if isinstance(hint, type) and issubclass(hint, Sort):
        return SortOf(hint.__name__, hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint, refuse, names)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated and args[0] is int and isinstance(args[1], UpTo):
        return Range(args[1].top)
    if origin in (Union, UnionType) and len(args) == 2 and NoneType in args:
        inner = _item(args[0] if args[1] is NoneType else args[1], refuse, names)
        if isinstance(inner, RecordOf):
            return OptionalRecord(inner)
        if is_scalar(inner) and not isinstance(inner, Option):
            return Option(inner)
    raise refuse(f"the type {hint!r}")


def _keys(hint: Any, refuse: Refuse, names: Mapping[str, Any]) -> tuple[Key, ...]:
    """The types that a map is from: one, or a tuple of them."""
    hints = get_args(hint) if get_origin(hint) is tuple else (hint,)
    kinds = [_item(h, refuse, names) for h in hints]
    if found := [k for k in kinds if not is_key(k)]:
        raise refuse(f"{said(found[0])} as a key; use a Sort, an Enum, bool or a bounded number")
    return tuple(k for k in kinds if is_key(k))


def _flat_keys(record: RecordOf, refuse: Refuse) -> tuple[Key, ...]:
    """The parts of a record as keys of a relation."""
    kinds = [kind for _, kind in parts(record)]
    if found := [k for k in kinds if not is_key(k)]:
        what = f"a set of {record.cls.__name__}, which holds a {said(found[0])}"
        raise refuse(f"{what}; use Sorts, Enums, bools and bounded numbers")
    return tuple(k for k in kinds if is_key(k))


def _record(cls: Any, refuse: Refuse, names: Mapping[str, Any]) -> RecordOf:
    """A frozen dataclass."""
    if not cls.__dataclass_params__.frozen or not fields(cls):
        raise refuse(f"the class {cls.__name__}; write @dataclass(frozen=True), with some fields")
    _check_record(cls)
    if unlike := _unlike_its_parts(cls):
        raise refuse(f"the class {cls.__name__} with {unlike}; a record is just its parts")
    try:
        hints = get_type_hints(cls, localns=dict(names), include_extras=True)
    except SpecError as error:  # of a word inside of it, which knows no place
        raise refuse(f"a part of {cls.__name__}: {error.construct}; {error.advice}") from None
    except Exception as error:
        raise refuse(f"a part of {cls.__name__}: {error}") from None
    found: list[tuple[str, Scalar | RecordOf]] = []
    for f in fields(cls):
        kind = _item(hints[f.name], refuse, names)
        if not (is_scalar(kind) or isinstance(kind, RecordOf)):
            raise refuse(f"{cls.__name__}.{f.name}, a {said(kind)} inside a record")
        found.append((f.name, kind))
    return RecordOf(cls, tuple(found))


def _unlike_its_parts(cls: Any) -> str | None:
    """
    The first thing for which a record would not be, or not equal, just what its parts are.

    The graph compares records part by part and makes them of what is given; Python must, too.
    """
    if not (cls.__dataclass_params__.eq and cls.__dataclass_params__.init):
        return "`eq=False` or `init=False`"
    if hidden := [f.name for f in fields(cls) if not f.compare or not f.init or f.kw_only]:
        return f"the part `{hidden[0]}`, which is not compared, or not given in its place"
    written = [name for name in _GENERATED if not _is_generated(getattr(cls, name))]
    written += [name for name, usual in _USUAL.items() if getattr(cls, name, None) is not usual]
    return f"a `{written[0]}` of its own" if written else None


_GENERATED = ("__init__", "__eq__", "__hash__")
_USUAL = {
    "__post_init__": None, "__new__": object.__new__, "__ne__": object.__ne__,
    "__getattribute__": object.__getattribute__,
}  # fmt: skip


def _is_generated(method: Any) -> bool:
    """Tells whether `dataclass` wrote a method: it has no file then."""
    return isinstance(method, FunctionType) and method.__code__.co_filename == "<string>"


def _check_record(cls: type[Any]) -> None:
    """Refuse two parts of one name: Python knows the last one only."""
    try:
        file = inspect.getsourcefile(cls)
    except (OSError, TypeError):
        return  # a record without a text shows nothing
    for node in definitions(file or "").values():
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            parts_of = [s for s in node.body if isinstance(s, ast.AnnAssign)]
            check_class(file or "", node.name, [*parts_of])
