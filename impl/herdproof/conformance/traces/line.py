"""
Lines of traces: one struct for what every line has, one reader, one word for what is wrong.

A line is a JSON object. `TraceLine` is version 2 of the format, for any protocol: steps, arguments
and observed fields in the names of its spec. A protocol may have structs of its own for its lines,
and for those of its version 1; whoever reads such lines names them (`formats`). All that comes
after the reader knows one struct. Format: `docs/trace.md`.

Lines are read by the million: as structs of msgspec they cost a tenth of what dataclasses would.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, TextIO

import msgspec
from msgspec import Meta, Struct
from msgspec import field as struct_field
from msgspec.structs import replace

from herdproof.errors import PeerError

SCHEMA: Final = 2
"""The version of the format of any protocol."""

START = "(start)"
"""The action of the first line of a process, which is no step: no action of a spec has its name."""

MOST = 2**63
"""Integers lie below it, and not below its negative."""

Int = Annotated[int, Meta(ge=-MOST, le=MOST - 1)]

After = Annotated[
    tuple[Annotated[int, Meta(ge=0, le=MOST - 1)], ...], Meta(min_length=2, max_length=3)
]
"""
Which line of its process a line comes after: the number of the last one about its group, or all.

Then the number of the process itself, that no other one of the node has; and if the last one was
about all groups, the number of the last one about the group alone (0: there was none).
"""


class TraceError(PeerError):
    """A trace cannot be read, or used: which file, which line, and what is wrong there."""


class UnknownVersion(TraceError):
    """A line is of a version that its reader does not know."""


class Line(Struct, kw_only=True, gc=False):
    """The common part of a trace's lines: one step of one node, and where it stands."""

    schema: int
    protocol: str
    run: str
    """The run that it belongs to."""
    node: str
    """Who wrote it."""
    sequence: Int
    """From 1, without a gap, for each process of a node (and of its role)."""
    time_ns: Int
    """The node's clock, nanoseconds since 1970."""
    action: str
    place: str = struct_field(default="", name="(place)")
    """File and line, or whatever names the place; not written."""

    @property
    def earliest_ns(self) -> int:
        """When the step may have happened at the earliest."""
        return self.time_ns

    # What a format may have as fields; by default there is none of it.

    @property
    def role(self) -> str:
        """The writer's role: a node's processes of different roles number their lines apart."""
        return ""

    @property
    def group(self) -> str:
        """The group, which is judged by itself within a run; empty for what concerns all of it."""
        return ""

    @property
    def epoch(self) -> int:
        """The coordinator's."""
        return 0

    @property
    def generation(self) -> int:
        """The group's."""
        return 0

    @property
    def shared(self) -> bool:
        """Tells whether its process's numbers run through the lines of several groups."""
        return False

    def follows(self, _before: Any, /) -> bool:
        """Tells whether it can be the next line of the process that has told the other one."""
        return True

    @property
    def sent(self) -> tuple[str, ...]:
        """Messages that the step sent, by ids that are unique in the run."""
        return ()

    @property
    def received(self) -> tuple[str, ...]:
        """Messages that it received."""
        return ()

    @property
    def zxid(self) -> int:
        """Its place among the steps of all nodes that have one: a transaction, a log's offset."""
        return 0

    @property
    def previous(self) -> int:
        """The number of the line that it repeats; 0: of none."""
        return 0

    @property
    def before(self) -> Predecessor | None:
        """The line that it repeats: its process's last one before it about its group, or all."""
        return None

    @property
    def after(self) -> tuple[int, ...] | None:
        """The line that it comes after, and its process (`After`); None: it does not say."""
        return None


class Predecessor(Struct, kw_only=True, gc=False, omit_defaults=True):
    """A line as the next one of its process repeats it: without what both have in common."""

    action: str
    ago_ns: Int = 0
    """The time between the two, by the same clock."""
    previous: Int = 0
    group: str = ""
    since_ns: Int = 0
    arguments: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    sent: tuple[str, ...] = ()
    received: tuple[str, ...] = ()
    zxid: Int = 0


class TraceLine(Line, kw_only=True, gc=False, omit_defaults=True):
    """A line of version 2; what is empty or 0 is not written."""

    role: str = ""
    group: str = ""
    since_ns: Int = 0
    """The step was taken at some moment from then on; 0: at `time_ns`."""
    arguments: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    """The fields as they were seen after the step; of a map, single entries."""
    sent: tuple[str, ...] = ()
    received: tuple[str, ...] = ()
    zxid: Int = 0
    previous: Int = 0
    before: Predecessor | None = None
    after: After | None = None

    @staticmethod
    def lacks(_action: str, _arguments: Mapping[str, Any], /) -> str:
        """The argument that a line of this action needs, and has not; empty if it has all."""
        return ""

    @property
    def earliest_ns(self) -> int:
        """When the step may have happened at the earliest."""
        return min(self.since_ns, self.time_ns) if self.since_ns else self.time_ns

    def written(self) -> str:
        """The line as it stands in a file, without its end."""
        return _ENCODER.encode(replace(self, place="") if self.place else self).decode()


_ENCODER = msgspec.json.Encoder()

Formats = Mapping[tuple[int, str], type[Any]]
"""
By version and protocol (empty: any), the struct of its lines.

Where it has a method `translated`, what that makes of a line is read in its place.
"""
ANY_PROTOCOL: Formats = MappingProxyType({(SCHEMA, ""): TraceLine})
"""Version 2."""


class _Head(Struct):
    """The head of a line, which says which format it has."""

    schema: Any = None
    protocol: Any = None


_HEAD = msgspec.json.Decoder(_Head).decode
_DECODERS: dict[type[Any], tuple[Callable[[str], Any], Callable[[Any], Any] | None, bool]] = {}
"""By struct, how a text becomes one, what that is translated by, and if it may lack arguments."""


def read_line(text: str, place: str = "", formats: Formats = ANY_PROTOCOL) -> Any:
    """
    One line of a trace, as what `formats` has for its version and protocol: a `TraceLine`.

    Fields that are unknown are skipped. Raises `TraceError`, which does not say the place.
    """
    try:
        head = _HEAD(text)
    except msgspec.ValidationError:
        raise TraceError("a line of a trace is a JSON object") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise TraceError(f"this is no JSON ({problem}): {text[:60]!r}") from None
    _check_head(head, formats)
    made = formats.get((head.schema, head.protocol)) or formats[head.schema, ""]
    return decoded(made, text, place)


def decoded(made: type[Any], text: str, place: str) -> Any:
    """A line that must be of this format; raises `TraceError`, which does not say the place."""
    known = _DECODERS.get(made)
    if known is None:
        may_lack = getattr(made, "lacks", TraceLine.lacks) is not TraceLine.lacks
        known = msgspec.json.Decoder(made).decode, getattr(made, "translated", None), may_lack
        _DECODERS[made] = known
    decode, translated, may_lack = known
    try:
        line = decode(text)
    except msgspec.ValidationError as problem:
        raise TraceError(_wrong(str(problem))) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise TraceError(f"this is no JSON ({problem}): {text[:60]!r}") from None
    if translated is not None:
        line = translated(line)
    if may_lack:
        _check_arguments(line)
    line.place = place
    return line


def _check_arguments(line: TraceLine) -> None:
    """Raise `TraceError` for a line that lacks an argument, or repeats one that does."""
    for told in (line, line.before):
        if told is not None and (name := line.lacks(told.action, told.arguments)):
            raise TraceError(f"`{told.action}` has no argument `{name}`")


def _check_head(head: _Head, formats: Formats) -> None:
    """Raise `TraceError` for a version or a protocol that nobody reads."""
    versions = sorted({schema for schema, _ in formats})
    if type(head.schema) is not int or head.schema not in versions:
        known = f"version{'s' if len(versions) > 1 else ''} {' and '.join(map(str, versions))}"
        raise UnknownVersion(f"the schema's version is {head.schema!r}; this reader knows {known}")
    protocols = sorted(name for schema, name in formats if schema == head.schema)
    if not isinstance(head.protocol, str):
        raise TraceError(f"the protocol is {head.protocol!r}; write the name of its spec")
    if "" not in protocols and head.protocol not in protocols:
        are = f"{'are' if len(protocols) > 1 else 'is'} {' and '.join(map(repr, protocols))}"
        raise TraceError(f"the protocol is {head.protocol!r}; known {are}")


_MISSING = re.compile(r"Object missing required field `([^`]*)`(?: - at `\$\.?(.*)`)?")
_OTHER = re.compile(r"(.*) - at `(key in )?\$\.?(.*)`")
_EXPECTED = re.compile(r"Expected `(.*)`, got `(.*)`")
_NAMES = {"int": "an integer", "str": "text", "bool": "true or false", "object": "a JSON object",
          "array": "a list", "null": "null", "float": "a number with a fraction"}  # fmt: skip


def _wrong(problem: str) -> str:
    """The objection of msgspec to a line, in a sentence."""
    if found := _MISSING.fullmatch(problem):
        where = f"{found[2]}." if found[2] else ""
        return f"the field `{where}{found[1]}` is missing"
    found = _OTHER.fullmatch(problem)
    if found is None:
        return problem
    what, where = found[1], found[3].replace("[...]", ".…").replace("[", ".").replace("]", "")
    if expected := _EXPECTED.fullmatch(what):
        wanted, got = (_NAMES.get(n.split(" | ")[0], n) for n in expected.groups())
        return f"the field `{where}` is {got}; it must be {wanted}"
    if "integer" in what.lower() or "`int`" in what:
        return f"the field `{where}` is beyond 64 bits"
    return f"the field `{where}`: {what}"


CUT_OFF = (
    "the last line is cut off: its writer died, or still writes; without that line the others"
    " can be replayed"
)
UNREADABLE = OSError, ValueError, EOFError, zlib.error
"""Errors of a file that is no text, is cut off while it is packed, or may not be read."""


# ── Files ───────────────────────────────────────────────────────────────────────────────────


def read_files(paths: Sequence[Path], formats: Formats = ANY_PROTOCOL) -> list[Any]:
    """
    The lines of all files of one run, file by file, each with its place.

    Raises `TraceError`: a file or a line that cannot be read, more than one run, no line at all.
    """
    lines = [line for path in paths for line in read_file(path, formats)]
    runs = sorted({line.run for line in lines})
    if len(runs) > 1:
        raise TraceError(f"these are traces of different runs ({', '.join(runs)}): give one run's")
    if not lines:
        raise TraceError(f"no line in {', '.join(map(str, paths))}: was anything traced?")
    return lines


def read_file(path: Path, formats: Formats = ANY_PROTOCOL) -> list[Any]:
    """Every line of a trace, in order, each with its place; raises `TraceError`."""
    try:
        with opened(path) as stream:
            text = stream.read()
    except UNREADABLE as problem:
        what = problem.strerror if isinstance(problem, OSError) else None
        raise TraceError(f"{path} cannot be read: {what or problem}") from problem
    texts = text.split("\n")
    ended = texts[-1] == ""
    return read_texts(texts[:-1] if ended else texts, str(path), formats, ended=ended)


def opened(path: Path) -> TextIO:
    """A trace to be read, unpacked if it is called `.gz`."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def read_texts(
    texts: Iterable[str], name: str, formats: Formats = ANY_PROTOCOL, *, ended: bool = True
) -> list[Any]:
    """Lines of one file or stream, each with its place; the last may be cut off (not `ended`)."""
    texts = list(texts)
    found = []
    for number, text in enumerate(texts, start=1):
        place = f"{name}, line {number}"
        try:
            found.append(read_line(text, place, formats))
        except TraceError as problem:
            cut = number == len(texts) and not ended
            what = CUT_OFF if cut else problem
            raise TraceError(f"{place}: {what}") from problem
    return found


def protocol_of(path: Path) -> tuple[Any, str]:
    """The version and the protocol that a trace's first line names; "" where it names none."""
    try:
        with opened(path) as stream:
            said = json.loads(stream.readline())
    except UNREADABLE:
        return None, ""  # its reader says what is wrong
    if not isinstance(said, dict):
        return None, ""
    return said.get("schema"), str(said.get("protocol", ""))
