"""
Story files, found and judged: the file's spec, the replay on it, and the replay on the code.

What `herdproof replay` prints and what pytest fails by is one `Verdict`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from herdproof.cli.specs import Subject, find
from herdproof.protocols.implementation import OnTheCode, on_the_code
from herdspec.check.replay import (
    Expect,
    Replayed,
    file_name,
    read_story,
    replay,
    story_file,
)
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdspec.check.explore import Story
    from herdspec.check.run import Machine


@dataclass(frozen=True)
class Verdict:
    """What came of a story file, on the spec `subject` and, if it has one, on its code."""

    path: Path
    subject: str
    replayed: Replayed
    code: OnTheCode | None

    @property
    def as_expected(self) -> bool:
        """Whether the spec does as the file expects, and the code as the spec."""
        return self.replayed.as_expected and (self.code is None or self.code.follows)

    @property
    def exit_code(self) -> int:
        """0 as expected, 1 not so, 3 unknown."""
        unknown = self.replayed.outcome is Expect.UNKNOWN and (
            self.code is None or self.code.follows
        )
        return 3 if unknown else int(not self.as_expected)

    @property
    def lines(self) -> list[str]:
        """All that there is to say, the verdict last."""
        r = self.replayed
        lines = [f'{self.subject}: "{r.story.sentence}"', *r.lines]
        if self.code is not None:
            lines += [*self.code.difference, self.code.line]
        if r.changed:
            lines.append("the spec is another than the one in which the story was found")
        wanted = f"as the file expects ({r.story.expect.value})"
        return [*lines, r.verdict, wanted if r.as_expected else f"not {wanted}"]


def judged(path: Path, on: str | None = None) -> Verdict:
    """
    Replay the story in a file, on its own spec or on the one that `on` names.

    Raises `UsageError` where the file, or what it says of the spec, is wrong.
    """
    story = read_story(path)
    name = on or located(story.spec, path.parent)
    subject = _found(name)
    replayed = replay(story, subject.spec, str(path))
    code = on_the_code(subject.name, replayed.machine, replayed.steps)
    return Verdict(path, name, replayed, code)


@lru_cache(maxsize=64)
def _found(name: str) -> Subject:
    """The spec of a name; many stories are of one."""
    return find(name)


def located(spec: str, folder: Path) -> str:
    """How to find a story's spec from here: a file's path is relative to the story's folder."""
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


def saved(folder: Path, spec: str, machine: Machine, stories: Mapping[str, Story]) -> list[Path]:
    """
    Write a story file for each of these counterexamples (by property) into a folder.

    `spec` is the name that a command was given; the folder is made where there is none.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder: name one for the stories")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, story in stories.items():
        path = folder / file_name(spec, name)
        found = story_file(
            relative(spec, folder), machine, name, story.initial, story.steps,
            back=getattr(story, "back", None),
        )  # fmt: skip
        found.write(path)
        written.append(path)
    return written
