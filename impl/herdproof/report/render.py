"""
Prints for all commands: tables on a terminal, plain lines elsewhere, JSON on request.

Verdicts go to stdout, progress and errors to stderr. With `--json -` stdout holds the JSON alone,
and what people read goes to stderr. Nothing is wrapped or coloured where nobody looks.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from herdspec.check.verdict import (
    ALWAYS_A_STEP,
    WITHIN,
    Finding,
    Mark,
    Shown,
    Standing,
    counted,
    standing_of,
)
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdspec.check.verify import Tell

JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the verdicts as JSON to FILE, or - ."),
]

PLAIN_WIDTH = 200
"""The width of output that is no terminal's: wide enough that no table is folded."""

NO_STEP = "no step is possible any more; if it may end so, say MAY_END = True in the spec's file"
"""The remark below a story that comes to a state without a next step."""

COLOURS = {Standing.HOLDS: "green", Standing.FAILS: "red", Standing.UNKNOWN: "yellow"}


def check_writable(files: Mapping[str, Path | None]) -> None:
    """Refuse files of options, before anything is checked, that could not be written."""
    for option, file in files.items():
        if file is not None and file.is_dir():
            raise UsageError(f"{option} {file}: it is a directory; name a file")
        if file is not None and not file.absolute().parent.is_dir():
            raise UsageError(f"{option} {file}: there is no directory to write it to")


def write_file(option: str, file: Path, text: str) -> None:
    """Write the file that an option names; raises `UsageError` where that cannot be done."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option} {file} cannot be written: {error.strerror}") from None


def remove_old(file: Path) -> None:
    """Remove what an earlier run wrote: whoever reads it after this one has failed is misled."""
    if file.is_file() and not file.is_symlink():  # and not a pipe, or a device
        with suppress(OSError):
            file.unlink()


class HeardConsole(Console):
    """A console that lets its command end as it likes where nobody reads any more."""

    def on_broken_pipe(self) -> None:
        """Called where `BrokenPipeError` is handled: raise it again; rich would exit with 1."""
        raise


class Output:
    """Where a command prints; `json_to` is what `--json` was given."""

    def __init__(self, json_to: str | None = None) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal without ● prints ?
        self.json_to = json_to
        self.notes: list[str] = []
        self.errors = console(stderr=True)
        self.people = self.errors if json_to == "-" else console()
        if json_to not in (None, "-"):
            check_writable({"--json": Path(json_to)})
            remove_old(Path(json_to))

    def line(self, text: str = "", style: str | None = None) -> None:
        """One line, as it is."""
        self.people.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def note(self, sentences: Iterable[str]) -> None:
        """Print what must not go unsaid, and is no verdict: a line for each, and in the JSON."""
        self.notes = [*sentences]
        for sentence in self.notes:
            self.line(sentence, style="yellow")

    def table(self, table: Table) -> None:
        """A table."""
        self.people.print(table)

    def json(self, what: dict[str, Any]) -> None:
        """The JSON, if it was asked for."""
        what = {**what, "notes": self.notes} if self.notes else what
        text = json.dumps(what, indent=2, ensure_ascii=False)
        if self.json_to == "-":
            print(text)
        elif self.json_to is not None:
            write_file("--json", Path(self.json_to), text + "\n")

    @contextmanager
    def progress(self, name: str) -> Iterator[Tell]:
        """Show how far something is, on a terminal only; it is gone when done."""
        columns = (
            SpinnerColumn(), TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20), TimeElapsedColumn(),
        )  # fmt: skip
        shown = self.errors.is_terminal
        with Progress(*columns, console=self.errors, transient=True, disable=not shown) as bar:
            task = bar.add_task(name, total=None)

            def tell(words: str, fraction: float | None) -> None:
                total = None if fraction is None else 1.0
                text = f"{name}  {words}"
                bar.update(task, description=text, total=total, completed=fraction or 0.0)

            yield tell


def console(stderr: bool = False) -> Console:
    """A console: as wide as its terminal, or wide enough."""
    made = HeardConsole(stderr=stderr, highlight=False, emoji=False)
    if not made.is_terminal:
        made.width = PLAIN_WIDTH
    return made


def table_of(*columns: str, title: str | None = None) -> Table:
    """An empty table with these columns."""
    made = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False
    )
    for column in columns:
        made.add_column(escape(column), overflow="fold")
    return made


def spoken(name: str) -> str:
    """A property's name as words."""
    return name.replace("_", " ")


def shown(what: Shown) -> str:
    """The length of a counterexample."""
    return counted(what.steps, "step") if what.steps else "the initial state"


def coloured(finding: Finding, text: str) -> str:
    """A cell's text in the colour of its standing; expected failures are no alarm."""
    colour = "cyan" if finding.is_expected_failure else COLOURS[finding.standing]
    return f"[{colour}]{escape(text)}[/{colour}]"


def verdict(finding: Finding) -> str:
    """A finding in a few words, as cells hold it."""
    text = f"{finding.mark.value} {said(finding)}"
    return f"{text} ({remark})" if (remark := remarked(finding)) else text


def said(finding: Finding) -> str:
    """The words for what was found, or how far was looked."""
    match finding.mark:
        case Mark.FAILS if finding.found:
            return shown(finding.found)
        case Mark.FAILS:
            return finding.note or "fails"
        case Mark.UNKNOWN:
            return finding.note or "unknown"
        case _:
            return finding.bounds


def remarked(finding: Finding) -> str:
    """The remark beside a verdict."""
    if finding.is_expected_failure:
        return "expected"
    if finding.expected and finding.found != finding.expected:
        return f"expected {shown(finding.expected)}, the last {finding.expected.last}"
    if finding.mark in (Mark.FAILS, Mark.UNKNOWN):
        return ""
    return finding.note


def story(finding: Finding) -> Iterator[str]:
    """A counterexample under the promise that it breaks."""
    words = {Mark.FAILS: "broken", Mark.UNKNOWN: "not shown to be broken"}
    yield f'{finding.subject}, {words.get(finding.mark, "shown")}: "{finding.sentence}"'
    yield from (f"  {line}" for line in finding.story)
    if finding.found and not finding.story:
        yield "  in the initial state"
    if finding.row == ALWAYS_A_STEP and finding.standing is Standing.FAILS:
        yield f"       {NO_STEP}"


def findings_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings as JSON, with all their stories."""
    return [
        {
            "subject": f.subject, "property": f.row, "kind": f.kind,
            "sentence": f.sentence, "mark": f.mark.name.lower(),
            "standing": f.standing.name.lower(), "bounds": f.bounds, "note": f.note,
            "cut": f.cut,
            "found": f.found._asdict() if f.found else None,
            "expected": f.expected._asdict() if f.expected else None, "story": list(f.story),
        }
        for f in findings
    ]  # fmt: skip


def conclusion(findings: Sequence[Finding]) -> str:
    """The last line of a command: what its findings come to, and what keeps it from more."""
    expected = sum(f.is_expected_failure for f in findings)
    also = f" ({counted(expected, 'failure')} as declared)" if expected else ""
    within = next((f.note for f in findings if f.note.startswith(f"{WITHIN} ")), "")
    return {
        Standing.HOLDS: f"It holds{within and f' {within}'}{also}.",
        Standing.FAILS: "It fails.",
        Standing.UNKNOWN: f"Unknown: {unknown_of(findings)}.",
    }[standing_of(findings)]


def unknown_of(findings: Sequence[Finding]) -> str:
    """Why nothing more is known: the first reason, and how many more findings have one."""
    reasons = [f for f in findings if f.standing is Standing.UNKNOWN]
    if not reasons:
        return "nothing was looked at"
    first = f"{spoken(reasons[0].row)}: {said(reasons[0])}"
    return first + (f", and {len(reasons) - 1} more" if len(reasons) > 1 else "")
