"""
A violation's story as a sequence diagram: a lane for whoever takes part, time downwards.

A line of a story is `time_ns|from|to|what` (`pipeline/spark/tables.py`); one that is not is told in
a lane of nobody, as it is. The drawing is that of `herdproof verify --html`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from herdproof.pipeline.report.facts import ViolationFacts
from herdproof.report.diagrams import CHARACTERS, LANE, PAD, TOP, Lanes, Move

LANES = 7
"""Who take part most have a lane of their own; the others share one."""
STEPS = 60
"""The last steps of a story that are drawn."""
OTHERS, NOBODY = "others", "—"
NAME = 13
"""Characters of a lane's name."""


@dataclass(frozen=True)
class StoryLine:
    """A line of a story."""

    time_ns: int | None
    source: str
    target: str
    what: str


@dataclass(frozen=True)
class Story:
    """A violation's story: as sentences, and drawn."""

    violation: ViolationFacts
    steps: Sequence[tuple[str, str, str]]
    """When, who (to whom), and what."""
    left_out: int
    """Earlier steps that are not told."""
    drawn: Lanes | None

    @property
    def sentence(self) -> str:
        """The title of the drawing."""
        return self.violation.sentence or self.violation.property


def story_of(violation: ViolationFacts) -> Story:
    """A violation's story; without a drawing where it has no steps."""
    steps = [_step(line) for line in violation.story]
    told = steps[-STEPS:]
    times = [s.time_ns for s in told if s.time_ns is not None]
    if violation.time_ns is not None:
        times.append(violation.time_ns)
    zero = max(times, default=0)
    lines = [(_when(s, zero), _who(s), s.what) for s in told]
    return Story(violation, lines, len(steps) - len(told), _drawn(told, zero) if told else None)


def _step(line: str) -> StoryLine:
    time, *rest = line.split("|", 3)
    if len(rest) != 3 or not time.lstrip("-").isdecimal() or not any(rest[:2]):
        return StoryLine(None, NOBODY, NOBODY, line)
    source, target, what = rest
    return StoryLine(int(time), source or target, target or source, what)


def _when(step: StoryLine, zero: int) -> str:
    """The time relative to the end of the story; empty where the step has none."""
    return "" if step.time_ns is None else f"{(step.time_ns - zero) / 1e9:.3f} s"


def _who(step: StoryLine) -> str:
    return step.source if step.source == step.target else f"{step.source} → {step.target}"


def _drawn(steps: Sequence[StoryLine], zero: int) -> Lanes:
    """The steps as arrows between lanes, their sentences beside them."""
    often = Counter(name for s in steps for name in {s.source, s.target})
    own = {name for name, _ in often.most_common(LANES if len(often) <= LANES else LANES - 1)}
    names = sorted(own) + ([OTHERS] if len(often) > len(own) else [])
    at = {name: PAD + LANE // 2 + LANE * k for k, name in enumerate(names)}
    moves: list[Move] = []
    y = TOP
    for number, step in enumerate(steps, start=1):
        start, end = (at[name if name in own else OTHERS] for name in (step.source, step.target))
        words = wrap(f"{number}. {step.what}", CHARACTERS) or [f"{number}."]
        others = f"  {_who(step)}" if not {step.source, step.target} <= own else ""
        moves.append(
            Move(number, start, end, y, tuple(words), (f"{_when(step, zero)}{others}",), False)
        )
        y += moves[-1].height
    shown: dict[str, int] = {}
    for name, x in at.items():
        shown[_lane(name, shown)] = x
    return Lanes(shown, tuple(moves), None)


def _lane(name: str, taken: dict[str, int]) -> str:
    """A lane's name, cut to its width; no two are alike."""
    short = name if len(name) <= NAME else f"{name[: NAME - 1]}…"
    number = 2
    while short in taken:
        short = f"{name[: NAME - 3]}…{number}"
        number += 1
    return short
