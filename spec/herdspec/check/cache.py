"""
Keeps what a check found from one run of `verify` to the next.

A folder holds one file of JSON for each check, with the *key* that its verdicts were found under:
the digest of everything that they depend on (spec, sizes and options, the checkers' own sources,
the solvers' versions; for runs of an implementation its sources, too). While the key is the same,
the check is not done again. A proof also keeps the digests of the obligations that were proved: if
one action changes, what the others keep need not be proved again.

What is unknown is never kept, and a file that cannot be read is left aside, with a note.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from herdspec.check.digest import digest, digest_of, engine, hashed
from herdspec.check.verdict import Finding, Mark, Shown, StoryStep

VERSION = 2
DEFAULT = Path(".herdproof") / "cache"
"""Where verdicts are kept, below the directory in which a command is called."""


@dataclass(frozen=True)
class Coverage:
    """
    The part of a subject's spec that an exploration took: each action, how often; no action twice.

    `missed` are branches that no step took: the action, and how many lines the branch stands below
    (or, in a helper, above or below) the action's first line.
    """

    subject: str
    taken: tuple[tuple[str, int], ...]
    missed: tuple[tuple[str, int], ...] | None = None
    """None where branches were not looked at."""


@dataclass(frozen=True)
class Result:
    """Findings of a check, and one line of what it looked at: sizes, counts."""

    findings: tuple[Finding, ...]
    measured: str
    coverage: tuple[Coverage, ...] = ()


@dataclass
class Memory:
    """The obligations that were proved before, by their digests, and those that count now."""

    before: frozenset[str] = frozenset()
    now: set[str] = field(default_factory=set)

    def knows(self, obligation: str) -> bool:
        """Tells whether this was proved before; then it counts as proved now, too."""
        if obligation not in self.before:
            return False
        self.now.add(obligation)
        return True

    def learn(self, obligation: str) -> None:
        """This was proved now."""
        self.now.add(obligation)


def key_of(*parts: Any) -> str:
    """The key of a check: of what it depends on, and of the checkers themselves."""
    return hashed("key", str(VERSION), engine(), digest_of(*parts))


@dataclass
class Cache:
    """
    A folder of verdicts.

    With `fresh` nothing is read, so that everything is done again, and then kept. `notes` say what
    could not be read or written: that costs time, and is no error.
    """

    folder: Path
    fresh: bool = False
    notes: list[str] = field(default_factory=list)

    def recall(self, name: str, key: str) -> Result | None:
        """The result of the check of this name under this key, if that is known."""
        kept = self._read(name)
        if kept is None or kept.get("key") != key or kept.get("check") != name:
            return None
        try:
            return result_of(kept["result"])
        except (KeyError, TypeError, ValueError) as error:
            self._note(name, error)
            return None

    def memory(self, name: str) -> Memory:
        """The obligations that the check of this name has proved, whatever its key was."""
        return Memory(frozenset((self._read(name) or {}).get("proved", ())))

    def keep(self, name: str, key: str, result: Result, proved: Iterable[str] = ()) -> None:
        """Keep what a check found, in place of what it found before."""
        kept: dict[str, Any] = {"check": name, "proved": sorted(proved)}
        if result.findings and all(f.mark is not Mark.UNKNOWN for f in result.findings):
            kept |= {"key": key, "result": result_json(result)}
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = {"version": VERSION, "sum": sum_of(kept), "kept": kept}
            write(path, json.dumps(whole, indent=1))
        except OSError as error:
            self.notes.append(f"the verdicts of “{name}” could not be kept: {error}")

    def path(self, name: str) -> Path:
        """The file of a check: readable, and another for every name."""
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]
        return self.folder / f"{plain}-{hashed(name)[:12]}.json"

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.path(name)
        if self.fresh or not path.exists():
            return None
        try:
            whole = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            self._note(name, error)
            return None
        kept = whole.get("kept") if isinstance(whole, dict) else None
        if not isinstance(kept, dict) or whole.get("version") != VERSION:
            self._note(name, "it is of another version, or no file of verdicts")
            return None
        if whole.get("sum") != sum_of(kept):
            self._note(name, "it is not what was written")
            return None
        return kept

    def _note(self, name: str, why: object) -> None:
        note = f"{self.path(name)} is left aside ({why}); the check is done again"
        if note not in self.notes:
            self.notes.append(note)


def sum_of(kept: dict[str, Any]) -> str:
    """The digest of a file's content, by which a file that was changed is known."""
    return hashed(json.dumps(kept, sort_keys=True))


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all, also where two processes write it."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


# ── Results as JSON, and back ───────────────────────────────────────────────────────────────


def result_json(result: Result) -> dict[str, Any]:
    """A result as JSON."""
    return {
        "measured": result.measured,
        "findings": [finding_json(f) for f in result.findings],
        "coverage": [[c.subject, c.taken, c.missed] for c in result.coverage],
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as JSON, with all that it says."""
    plain = {name: getattr(finding, name) for name in TEXTS}
    return plain | {
        "mark": finding.mark.name, "found": finding.found, "expected": finding.expected,
        "story": finding.story, "steps": finding.steps, "repeats": finding.repeats,
        "never": finding.never, "assumed": finding.assumed,
    }  # fmt: skip


TEXTS = ("subject", "row", "kind", "bounds", "sentence", "note")
"""The parts of a finding that are plain text."""


def result_of(kept: Mapping[str, Any]) -> Result:
    """The reverse of `result_json`; raises `KeyError`, `TypeError` or `ValueError`."""
    findings = tuple(finding_of(f) for f in kept["findings"])
    return Result(findings, text_of(kept["measured"]), tuple(map(coverage_of, kept["coverage"])))


def finding_of(kept: Mapping[str, Any]) -> Finding:
    """The reverse of `finding_json`."""
    if kept["mark"] not in Mark.__members__ or Mark[kept["mark"]] is Mark.UNKNOWN:
        raise ValueError(f"{kept['mark']!r} is no mark of a verdict")
    texts: dict[str, Any] = {name: text_of(kept[name]) for name in TEXTS}
    return Finding(
        **texts, mark=Mark[kept["mark"]],
        never=texts_of(kept["never"]), assumed=texts_of(kept["assumed"]),
        found=shown_of(kept["found"]), expected=shown_of(kept["expected"]),
        story=texts_of(kept["story"]),
        steps=tuple(map(taken_of, kept["steps"])), repeats=number_of(kept["repeats"]),
    )  # fmt: skip


def coverage_of(kept: Any) -> Coverage:
    """The reverse of what `result_json` writes of a coverage."""
    subject, taken, missed = kept
    branches = None if missed is None else tuple((text_of(a), int(n)) for a, n in missed)
    return Coverage(text_of(subject), tuple((text_of(a), int(n)) for a, n in taken), branches)


def shown_of(kept: Any) -> Shown | None:
    """A counterexample's length and last action, if there is one."""
    if kept is None:
        return None
    steps, last = kept
    return Shown(int(steps), text_of(last))


def taken_of(kept: Any) -> StoryStep:
    """A step of a story."""
    action, arguments, elements, sentence, changes = kept
    return StoryStep(
        text_of(action), texts_of(arguments), texts_of(elements), text_of(sentence),
        texts_of(changes),
    )  # fmt: skip


def text_of(kept: Any) -> str:
    """A text; raises `TypeError` for anything else."""
    if not isinstance(kept, str):
        raise TypeError(f"{kept!r} is no text")
    return kept


def texts_of(kept: Any) -> tuple[str, ...]:
    """Several texts."""
    return tuple(map(text_of, kept))


def number_of(kept: Any) -> int | None:
    """A number, if there is one."""
    return None if kept is None else int(kept)


__all__ = ["Cache", "Coverage", "Memory", "Result", "digest", "key_of"]
