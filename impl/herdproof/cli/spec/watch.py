"""
`--watch`: check again whenever the spec's file, or a neighbour that it imports, is saved.

The process and its libraries stay; only the user's own modules are read anew, so that an answer
comes in a fraction of a second. A file that cannot be read is said, and watched on.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from herdproof.errors import HerdError
from herdspec.language.errors import HerdspecError, UsageError

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdproof.report.render import Output

WatchOption = Annotated[
    bool, typer.Option("--watch", help="Check again whenever the file is saved, until Ctrl-C.")
]

OURS = ("herdspec", "herdproof")
"""Packages that are never read anew, but for the protocols."""
SETTLED_MS = 20
"""A file that was not touched for so long has been saved."""
EMPTY_MS = 3_000
"""A file that has been empty for so long is meant to be."""
LOOK_MS = 500
"""After so long it is looked at the files themselves: where the system tells nothing of changes."""

Stamps = Mapping[Path, tuple[int, int]]
"""When each file was changed (nanoseconds), and its length."""


def every_save(out: Output, name: str, check: Callable[[Subject], object]) -> None:
    """
    Read the spec of this name and check it, then again at every change; ends by Ctrl-C only.

    What the user can put right (`HerdError`, `HerdspecError`) is printed; anything else
    is ours, and raised.
    """
    sys.dont_write_bytecode = True  # two saves within a second must not be taken for one
    sources = WatchedSources.of(name)
    while True:
        seen = sources.stamps()
        checked(out, name, sources, check)
        # A file that was saved during the check keeps its old stamp here, and is checked at once.
        seen = {file: seen.get(file, stamp) for file, stamp in sources.stamps().items()}
        changed = changes(sources, seen, out.line)
        out.line()
        out.line(f"── {', '.join(changed)} changed ──", style="bold")


def changes(sources: WatchedSources, seen: Stamps, tell: Callable[[str], None]) -> list[str]:
    """The names of the files that changed, as soon as there are some."""
    from watchfiles import watch  # before anybody is told to press Ctrl-C: it would break an import

    tell(f"watching {', '.join(map(str, sources.folders))}: Ctrl-C ends it")
    told = watch(
        *sources.folders, recursive=False, yield_on_timeout=True,
        step=SETTLED_MS, rust_timeout=LOOK_MS,
    )  # fmt: skip
    with closing(told):
        while (now := sources.stamps()) == seen or being_written(now, seen, time.time_ns()):
            with sigterm_waits():
                next(told)
    return sorted({f.name for f in {**seen, **now} if seen.get(f) != now.get(f)})


def being_written(now: Stamps, seen: Stamps, at_ns: int) -> bool:
    """Tells whether a changed file has just been emptied: to save is to cut it, then write it."""
    cut = [when for file, (when, size) in now.items() if not size and seen.get(file) != (when, 0)]
    return any(0 <= at_ns - when < EMPTY_MS * 1_000_000 for when in cut)


def checked(
    out: Output, name: str, sources: WatchedSources, check: Callable[[Subject], object]
) -> None:
    """Read the spec and check it; say what is wrong with it, if its user can put it right."""
    from herdproof.cli.specs import find

    try:
        with sources.read_anew():
            subject = find(name)
        out.note(subject.left_out)
        check(subject)
    except (HerdError, HerdspecError) as error:
        out.line(f"herdproof: {error}", style="red")


@dataclass
class WatchedSources:
    """The files that a spec is read from: those of one folder, and what they import below it."""

    folder: Path
    package: str = ""
    """A package of ours that is to be read anew; otherwise those are left alone."""
    modules: dict[str, Path] = field(default_factory=dict)
    """The user's modules by name, as they were last read."""

    @classmethod
    def of(cls, name: str) -> WatchedSources:
        """Where the spec of this name stands: the user's folder, or that of the known protocols."""
        path = name.rpartition(":")[0] if not name.endswith(".py") else name
        if path.endswith(".py"):
            if not Path(path).parent.is_dir():
                raise UsageError(f"there is no file {path}")
            return cls(Path(path).parent.resolve())
        from herdproof.cli.specs import find

        module = sys.modules[find(name).spec.state.__module__]
        assert module.__file__ is not None, "a protocol's spec stands in a file"
        return cls(Path(module.__file__).parent, module.__name__.rpartition(".")[0])

    @property
    def folders(self) -> list[Path]:
        """The folders in which a change matters."""
        return sorted({self.folder, *(path.parent for path in self.modules.values())})

    def stamps(self) -> Stamps:
        """When each file was last changed."""
        files = {*self.folder.glob("*.py"), *self.modules.values()}
        found = {}
        for file in sorted(files):
            try:
                stat = file.stat()
            except OSError:
                continue  # gone between two looks
            found[file] = (stat.st_mtime_ns, stat.st_size)
        return found

    @contextmanager
    def read_anew(self) -> Iterator[None]:
        """Within this context imports of the user's modules read their files."""
        importlib.invalidate_caches()
        for name in [*self.modules, *(m for m in sys.modules if self.is_ours_to_read(m))]:
            sys.modules.pop(name, None)
        before = set(sys.modules)
        try:
            yield
        finally:
            new = {name: sys.modules[name] for name in set(sys.modules) - before}
            files = {n: getattr(module, "__file__", None) for n, module in new.items()}
            found = {n: Path(file).resolve() for n, file in files.items() if file}
            self.modules = {n: file for n, file in found.items() if self.owns(n, file)}

    def is_ours_to_read(self, module: str) -> bool:
        """Tells whether a module belongs to the package of ours that is read anew."""
        return bool(self.package) and module.startswith(f"{self.package}.")

    def owns(self, module: str, file: Path) -> bool:
        """Tells whether a module is the user's own: below the folder, no installed library."""
        if module.partition(".")[0] in OURS:
            return self.is_ours_to_read(module)
        return file.is_relative_to(self.folder) and "site-packages" not in file.parts


@contextmanager
def sigterm_waits() -> Iterator[None]:
    """
    Within this context SIGTERM waits for its end.

    The watcher would take the exception that SIGTERM raises for a Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    held: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
    for number in held:
        signal.raise_signal(number)
