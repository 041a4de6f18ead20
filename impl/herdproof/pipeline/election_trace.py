"""
Traces of elections for the audit. Format: `docs/trace.md`.

An election has no groups: what is judged is the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec import field as struct_field

from herdproof.conformance.traces.ordering import Ordered, ordered
from herdproof.pipeline.auditor import Auditor, Replayed
from herdproof.pipeline.events import Deposed, Elected, Event, ProcessStarted, Wrote
from herdproof.pipeline.lines import MOST, Reader
from herdproof.pipeline.replays import replay_election
from herdproof.trace import ELECTION, SCHEMA, AnswerLine, AskLine, State, TraceLine, read_line

Int = Annotated[int, Meta(ge=-MOST, le=MOST - 1)]


class Answered(Struct, kw_only=True, gc=False):
    """As `AnswerLine`."""

    call: str
    number: Int
    outcome: str
    owner: Int
    epoch: Int
    zxid: Int


class Asked(Struct, kw_only=True, gc=False):
    """As `AskLine`."""

    call: str
    number: Int
    watch: bool
    epoch: Int


class After(Struct, kw_only=True, gc=False):
    """As `State`."""

    link: str
    stands: bool
    leads: bool
    token: Int
    call: str
    due: bool


class Line(Struct, kw_only=True, gc=False):
    """A line as `TraceLine`, and where it stands."""

    schema: Literal[1]
    protocol: Literal["election"]
    run: str
    node: str
    sequence: Int
    time_ns: Int
    since_ns: Int
    action: str
    session: Int
    answered: Answered | None
    asked: Asked | None
    state: After
    place: str = struct_field(default="", name="(place)")

    @property
    def group(self) -> str:
        """There is none."""
        return ""

    @property
    def role(self) -> str:
        """All have the same."""
        return ""

    @property
    def epoch(self) -> int:
        """The last epoch that the node led in."""
        return self.state.token

    @property
    def generation(self) -> int:
        """There is none."""
        return 0

    @property
    def shared(self) -> bool:
        """No: whoever has a run's lines has them all."""
        return False

    def written(self) -> str:
        """The line as it stands in a file, without its end."""
        return trace_line(self).written()


_NAMES = ("run", "node", "sequence", "time_ns", "since_ns", "action", "session")


def line_of(line: TraceLine) -> Line:
    """A line that the protocol's own reader has read, or that a tracer wrote."""
    answered, asked = line.answered, line.asked
    return Line(
        schema=1, protocol="election",
        answered=None if answered is None else Answered(**_same(AnswerLine, answered)),
        asked=None if asked is None else Asked(**_same(AskLine, asked)),
        state=After(**_same(State, line.state)),
        **{name: getattr(line, name) for name in _NAMES},
    )  # fmt: skip


def trace_line(line: Line) -> TraceLine:
    """The line as everybody else has it."""
    answered, asked = line.answered, line.asked
    return TraceLine(
        answered=None if answered is None else AnswerLine(**_same(AnswerLine, answered)),
        asked=None if asked is None else AskLine(**_same(AskLine, asked)),
        state=State(**_same(State, line.state)),
        **{name: getattr(line, name) for name in _NAMES},
    )


def _same(kind: type[Any], part: Any) -> dict[str, Any]:
    return {name: getattr(part, name) for name in kind.__dataclass_fields__}


_NO_GROUPS = "an election has no groups, members or offsets"

OBSERVABLE: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "EXCLUSIVE", "FENCED_COMMIT", "COMMANDS_NOBODY", "WRITTEN_FIRST", "NOTHING_SKIPPED",
            "ONLY_FINISHED", "STORED_FIRST", "COMPLETE",
        ),
        _NO_GROUPS,
    ),
    "FENCED_COMMAND": "an election commands nobody",
    "FENCED_WRITE": "",
    "MONOTONE": "",
    "ONE_COORDINATOR": "",
    "SETTLES": "a trace cannot show what is left undone for ever",
}  # fmt: skip
"""What electors tell enough about."""


class ElectionTeller:
    """Tells an election's lines, one after the other."""

    def __init__(self) -> None:
        self._leads: dict[str, int] = {}
        """Who believes that it leads, and in which epoch."""

    def tell(self, line: Line) -> list[Event]:
        """What a line, the next one in order, says that happened."""
        told: list[Event] = []
        where: dict[str, Any] = {
            "time_ns": line.time_ns, "place": line.place, "node": line.node,
        }  # fmt: skip
        if line.action == "start":
            self._leads.pop(line.node, None)
            told.append(ProcessStarted(**where, role="coordinator"))
        answered = line.answered
        if answered is not None and (answered.call, answered.outcome) == ("write", "done"):
            told.append(Wrote(**where, epoch=answered.epoch, asked_ns=line.since_ns))
        led, leads = self._leads.get(line.node), line.state.token if line.state.leads else None
        if led != leads:
            self._leads.pop(line.node, None)
            if led is not None:
                told.append(Deposed(**where, epoch=led))
            if leads is not None:
                self._leads[line.node] = leads
                told.append(Elected(**where, epoch=leads))
        return told


class ElectionAuditor(Auditor):
    """What the pipeline knows of an election's traces."""

    name = ELECTION
    grouped = False
    observable = OBSERVABLE

    def __init__(self) -> None:
        self._read = Reader(Line, SCHEMA, read_line, line_of)

    def read(self, text: str, place: str) -> Line:
        """A line of a trace, or `Malformed`."""
        line: Line = self._read(text, place)
        return line

    def ordered(self, lines: Sequence[Line]) -> Ordered[Line]:
        """A run's lines in the order in which things happened, those twice, those missing."""
        return ordered(lines)

    def teller(self, run: str, group: str) -> ElectionTeller:
        """Who tells a run's lines."""
        del run, group
        return ElectionTeller()

    def replay(self, lines: Sequence[Line]) -> Replayed:
        """A run's lines, in order, replayed in the spec."""
        return replay_election([(trace_line(line), line.place) for line in lines])
