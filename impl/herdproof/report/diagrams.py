"""
Lays out diagrams: numbers for the templates that write SVG.

A story is drawn as a sequence diagram: one lane for each element that takes part, one for the world
(faults, users), time downwards, the sentences beside it. A state machine is drawn with its members
on an ellipse. Sizes are in SVG's user units, one of them about a pixel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from math import cos, hypot, pi, sin
from textwrap import wrap

from herdspec.check.exploration.transitions import StateMachine
from herdspec.check.running.run import INITIALLY
from herdspec.check.verdict import Finding, StoryStep
from herdspec.language.specification import Specification
from herdspec.language.surface import ActionKind

WORLD = "the world"
LANE, LINE, PAD = 104, 17, 12
CHARACTERS = 92
"""Of a sentence beside its step, until it is broken."""
CHARACTER = 7.2
"""The width of one, on average."""
TOP = 46
"""Below the lanes' names."""


# ── Stories ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Move:
    """A step: an arrow from x = `start` to `end`, or a dot where these are the same."""

    number: int
    start: int
    end: int
    y: int
    words: tuple[str, ...]
    changes: tuple[str, ...]
    fault: bool

    @property
    def height(self) -> int:
        """The distance to where the next one begins."""
        return LINE * (len(self.words) + len(self.changes)) + PAD


@dataclass(frozen=True)
class Lanes:
    """A story's drawing: lanes with their x, moves, and where texts begin."""

    lanes: Mapping[str, int]
    moves: tuple[Move, ...]
    repeats: int | None
    """From which y on the story repeats for ever."""
    begins: tuple[str, ...] = ()
    """The initial state, where there is more than one."""

    @property
    def text(self) -> int:
        """The x of the sentences."""
        return PAD + LANE * len(self.lanes)

    @property
    def width(self) -> int:
        """Of the whole drawing."""
        return self.text + round(CHARACTERS * CHARACTER) + PAD

    @property
    def height(self) -> int:
        """Of the whole drawing."""
        return top(self.begins) + sum(move.height for move in self.moves)


def sequence(finding: Finding, spec: Specification | None) -> Lanes:
    """Draw a finding's steps; `spec` knows which of them are the world's."""
    kinds = {a.name: a.kind for a in spec.actions} if spec else {}
    elements = sorted({e for step in finding.steps for e in step.elements})
    at = {name: PAD + LANE // 2 + LANE * k for k, name in enumerate([*elements, WORLD])}
    begins = tuple(chain.from_iterable(wrap(line, CHARACTERS) for line in beginning(finding)))
    moves: list[Move] = []
    y = top(begins)
    for number, step in enumerate(finding.steps, start=1):
        moves.append(move(number, step, at, y, kinds.get(step.action, ActionKind.STEP)))
        y += moves[-1].height
    from_step = finding.repeats
    repeats = moves[from_step].y - LINE if from_step is not None and moves[from_step:] else None
    return Lanes(at, tuple(moves), repeats, begins)


def beginning(finding: Finding) -> list[str]:
    """The line of a story that shows its initial state, if it has one."""
    return [line for line in finding.story[:2] if line.startswith(INITIALLY)]


def top(begins: tuple[str, ...]) -> int:
    """Where the first move is: below the lanes' names, and below how the story begins."""
    return TOP + (LINE * len(begins) + PAD if begins else 0)


def move(number: int, step: StoryStep, at: Mapping[str, int], y: int, kind: ActionKind) -> Move:
    """One step: the world's begins in its lane, any other in that of its first element."""
    ends = [at[e] for e in step.elements]
    if kind is not ActionKind.STEP or not ends:
        ends = [at[WORLD], *ends]
    words = wrap(f"{number}. {step.sentence}", CHARACTERS)
    changes = wrap(", ".join(step.changes) or "nothing changes", CHARACTERS)
    end = ends[1] if len(ends) > 1 else ends[0]
    return Move(number, ends[0], end, y, tuple(words), tuple(changes), kind is ActionKind.FAULT)


# ── State machines ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class MemberBox:
    """A member: its box around (x, y)."""

    name: str
    x: float
    y: float
    width: float
    initial: bool


@dataclass(frozen=True)
class Arrow:
    """A curve from box to box, bent at (cx, cy), with the names of its actions."""

    path: str
    x: float
    y: float
    words: tuple[str, ...]
    whole: str


@dataclass(frozen=True)
class Drawing:
    """A state machine's drawing."""

    machine: StateMachine
    nodes: tuple[MemberBox, ...]
    arrows: tuple[Arrow, ...]
    width: int
    height: int


NODE_HEIGHT, EDGE = 30, 48
SHOWN = 2
"""Actions that are named at an arrow; the others are told in its title and in the table."""


LABEL = 0.4
"""Where along its curve an arrow is labelled, so that it is not where the way back is."""


def drawing(machine: StateMachine) -> Drawing:
    """Draw a state machine."""
    number = len(machine.members)
    rx, ry = 190 + 26 * number, 60 + 26 * number
    width = 2 * rx + 240
    nodes = {}
    for k, name in enumerate(machine.members):
        angle = 2 * pi * k / number - pi / 2
        nodes[name] = MemberBox(
            name, width / 2 + rx * cos(angle), ry * (1 + sin(angle)) + EDGE,
            26 + 8 * len(name), name in machine.initial,
        )  # fmt: skip
    height = round(max((node.y for node in nodes.values()), default=0)) + EDGE
    arrows = tuple(arrow(nodes[a], nodes[b], actions) for a, b, actions in machine.arrows)
    return Drawing(machine, tuple(nodes.values()), arrows, width, height)


def arrow(a: MemberBox, b: MemberBox, actions: tuple[str, ...]) -> Arrow:
    """A curve that bends to one side, so that the way back lies beside it."""
    dx, dy = b.x - a.x, b.y - a.y
    length = hypot(dx, dy) or 1.0
    bend = min(60.0, 22 + length / 9)
    cx = (a.x + b.x) / 2 - dy / length * bend
    cy = (a.y + b.y) / 2 + dx / length * bend
    (x1, y1), (x2, y2) = border(a, cx, cy), border(b, cx, cy)
    path = f"M {x1:.1f} {y1:.1f} Q {cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}"
    more = len(actions) - SHOWN
    words = (*actions[:SHOWN], f"+ {more} more") if more > 0 else actions
    whole = f"{a.name} → {b.name}: {', '.join(actions)}"
    x, y = (along(LABEL, *of) for of in ((x1, cx, x2), (y1, cy, y2)))
    return Arrow(path, x, y, words, whole)


def along(share: float, a: float, b: float, c: float) -> float:
    """A point of the curve from a to c that bends to b."""
    return (1 - share) ** 2 * a + 2 * share * (1 - share) * b + share**2 * c


def border(node: MemberBox, x: float, y: float) -> tuple[float, float]:
    """Where the line from a box's middle to this point leaves the box."""
    dx, dy = x - node.x, y - node.y
    across = (node.width / 2 + 3) / abs(dx) if dx else float("inf")
    along = (NODE_HEIGHT / 2 + 3) / abs(dy) if dy else float("inf")
    share = min(across, along, 1.0)
    return node.x + dx * share, node.y + dy * share
