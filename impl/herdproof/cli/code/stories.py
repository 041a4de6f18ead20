"""
Story files, saved, found and judged: the file's spec, the replay on it, and that on the code.

What `herdproof replay` prints and what pytest fails by is one `Verdict`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from herdproof.cli.specs import Subject, find
from herdproof.conformance.stories import OnTheCode, on_the_code
from herdproof.protocols.implementation import adapter_of, without_code
from herdspec.check.running.replay import (
    Expect,
    Replayed,
    file_name,
    read_story,
    replay,
    story_file,
)

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter
    from herdproof.report.render import Output
    from herdspec.check.exploration.explore import Story
    from herdspec.check.running.run import Machine
    from herdspec.language.specification import Specification


@dataclass(frozen=True)
class Verdict:
    """
    The verdict on a story file, on the spec `subject` and, if it has one, on its code.

    Code that cannot follow does not differ, and shows nothing: that is unknown.
    """

    path: Path
    subject: str
    replayed: Replayed
    code: OnTheCode | None
    without_code: str = ""
    """The sentence that says that there is none, where there should be."""

    @property
    def as_expected(self) -> bool:
        """Tells whether the spec does as the file expects, and the code as the spec."""
        return self.replayed.as_expected and not self.differs

    @property
    def differs(self) -> bool:
        """Tells whether the code did what its spec does not allow."""
        return self.code is not None and self.code.differs

    @property
    def not_shown(self) -> str:
        """The words for what the story does not show of code that does not differ."""
        if self.code is None or self.code.follows or self.code.differs:
            return ""
        return self.code.line

    @property
    def unknown(self) -> str:
        """Why nothing is known of the story, on the spec or on the code; empty if all is known."""
        if self.differs:
            return ""
        if self.replayed.outcome is Expect.UNKNOWN:
            return self.replayed.verdict
        return (self.not_shown or self.without_code) if self.as_expected else ""

    @property
    def exit_code(self) -> int:
        """0 as expected, 1 not so, 3 unknown."""
        return 3 if self.unknown else int(not self.as_expected)

    @property
    def lines(self) -> list[str]:
        """All that there is to say, the verdict last."""
        r = self.replayed
        lines = [f'{self.subject}: "{r.story.sentence}"', *r.lines]
        if self.code is not None:
            lines += [*self.code.difference, self.code.line]
        elif self.without_code:
            lines.append(self.without_code)
        if r.changed:
            lines.append("the spec is another than the one in which the story was found")
        wanted = f"as the file expects ({r.story.expect.value})"
        return [*lines, r.verdict, wanted if r.as_expected else f"not {wanted}"]


def judged(path: Path, on: str | None = None, code: str | None = None) -> Verdict:
    """
    Replay the story in a file, on its own spec or on the one that `on` names.

    It is replayed on `code` (as `--code` has it), else on what the file names, else on what stands
    beside the spec, or is entered with it. Raises `UsageError` where the file, or what it says of
    the spec, is wrong, and `AdapterError` for code that does not fit.
    """
    story = read_story(path)
    name = on or located(story.spec, path.parent)
    subject = _found(name)
    replayed = replay(story, subject.spec, str(path))
    adapter = _code(subject, code or located(story.code, path.parent))
    if adapter is None:
        return Verdict(path, name, replayed, None, without_code(name))
    came = on_the_code(replayed.machine, adapter, replayed.steps, replayed.initial)
    return Verdict(path, name, replayed, came)


def _code(subject: Subject, named: str) -> type[Adapter] | None:
    """The adapter of a spec's code, by its name if that is given."""
    from herdproof.cli.code.code import adapter_named, beside

    if named:
        return adapter_named(named, sys.modules[subject.spec.state.__module__])
    if not subject.module:
        return adapter_of(subject.name)
    return beside(sys.modules[subject.module], [subject]).get(subject.name)


@lru_cache(maxsize=64)
def _found(name: str) -> Subject:
    """The spec of a name; many stories are of one."""
    return find(name)


def located(spec: str, folder: Path) -> str:
    """The way to a story's spec from here: a file's path is relative to the story's folder."""
    path, colon, attribute = spec.rpartition(":")
    if not colon:
        path, attribute = spec, ""
    return f"{folder / path}{colon}{attribute}" if path.endswith(".py") else spec


def relative(spec: str, folder: Path) -> str:
    """The reverse of `located`: how a story in this folder finds its spec."""
    path, colon, attribute = spec.rpartition(":")
    if not colon:
        path, attribute = spec, ""
    if not path.endswith(".py"):
        return spec
    inner = Path(os.path.relpath(Path(path).resolve(), folder.resolve()))
    return f"{inner.as_posix()}{colon}{attribute}"


# ── Saving ──────────────────────────────────────────────────────────────────────────────────


class Within(Protocol):
    """The size and the bounds at which somebody has looked: an exploration, a search, walks."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Elements of each sort."""

    @property
    def faults(self) -> int:
        """The budget of what disturbs."""

    @property
    def bound(self) -> int:
        """The largest natural."""


def machine_at(spec: Specification, looked: Within) -> Machine:
    """The spec as somebody has looked at it."""
    from herdspec.check.running.run import Machine
    from herdspec.engine.ground import Ground

    return Machine(Ground(spec, looked.sizes, looked.bound, looked.faults))


@dataclass(frozen=True)
class FoundStories:
    """Stories of a machine by property: in which it is `broken`, or, a `sometimes`, `shown`."""

    machine: Machine
    broken: Mapping[str, Story]
    shown: Mapping[str, Story] = field(default_factory=dict)


def save_stories(out: Output, folder: Path, spec: str, *several: FoundStories) -> None:
    """Save what a command has found as files that `herdproof replay` and pytest know; say so."""
    files = [file for found in several for file in saved(folder, spec, found)]
    out.line()
    for file in files:
        out.line(f"saved {file}: herdproof replay {file}")
    if not files:
        out.line(f"nothing to save in {folder}: no story was found")


def saved(folder: Path, spec: str, found: FoundStories) -> list[Path]:
    """
    Write a file for each of these stories into a folder, which is made where there is none.

    `spec` is the whole name of the spec, as a command is given it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    expected = [(Expect.FAILS, *of) for of in found.broken.items()]
    expected += [(Expect.HOLDS, *of) for of in found.shown.items()]
    written = []
    for expect, name, story in expected:
        path = folder / file_name(spec, name)
        told = story_file(
            relative(spec, folder), found.machine, name, story.initial, story.steps,
            back=getattr(story, "back", None),
        )  # fmt: skip
        told.expecting(expect).write(path)
        written.append(path)
    return written
