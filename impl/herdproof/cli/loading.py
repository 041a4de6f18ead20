"""
Files of the user's own, imported: a spec's, and those of the code that is held to it.

A spec's file is imported under a name that no other file has. Whoever imports it by its usual name
meanwhile (an adapter's `from lease import Client`) gets that same module: elements of two sorts of
one name are never equal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from zlib import crc32

from herdproof.errors import Signalled
from herdproof.protocols.imports import digest_from
from herdproof.raised import is_installed, line_of
from herdspec.check.digest import hashed, sources
from herdspec.language.errors import SpecError, UsageError

OWN = "herdproof_spec_"
"""The beginning of the names under which files are imported."""
IMPORTED: set[str] = set()
"""The modules that were imported with files of the user's own, these included."""


def imported(path: Path) -> ModuleType:
    """The module in a file, which may import its neighbours as a script may."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    # Two files of one name must not be taken for each other: sorts are looked up by module.
    name = f"{OWN}{path.stem}_{crc32(str(path.resolve()).encode()):08x}"
    loader = AsItStands(name, str(path))
    place = spec_from_file_location(name, path, loader=loader)
    assert place is not None, "it was given its loader"
    module = module_from_spec(place)
    sys.modules[name] = module
    with beside(module):
        _run(path, lambda: loader.exec_module(module))
    return module


def imported_beside(place: str, module: ModuleType) -> ModuleType:
    """
    Another module, by its name or as a file; where it imports the file of `module`, it gets that.

    Modules are looked for beside that file, in the present directory, and where Python looks.
    """
    file = Path(place)
    if file.suffix == ".py":
        if not file.is_file():
            raise UsageError(f"there is no file {place}")
        if file.resolve() == Path(str(module.__file__)).resolve():
            return module
        place = file.stem
    found: list[ModuleType] = []
    with beside(module, *([file.parent] if file.suffix == ".py" else [])):
        _run(Path(place), lambda: found.append(import_module(place)))
    return found[0]


def _run(what: Path, importing: Callable[[], None]) -> None:
    """Import; what goes wrong is a sentence about the user's file."""
    try:
        importing()
    except (SpecError, Signalled):
        raise
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None
    except (Exception, SystemExit) as error:  # a script's own end is not that of the command
        said = f"{type(error).__name__}: {error}"
        raise UsageError(f"{what} cannot be imported: {said}{line_of(error)}") from error


@contextmanager
def beside(module: ModuleType, *folders: Path) -> Iterator[None]:
    """Within this, the neighbours of a module are found, and its file is itself by every name."""
    file = Path(str(module.__file__)).resolve()
    others = {
        name: other
        for name, other in list(sys.modules.items())
        if other is not module and not name.startswith(OWN) and _file_of(other) == file
    }
    finder = Itself(module, file)
    before, known = sys.path[:], {*sys.modules}
    sys.modules.update(dict.fromkeys(others, module))
    sys.meta_path.insert(0, finder)
    sys.path[:0] = [str(folder.resolve()) for folder in (*folders, file.parent, Path())]
    try:
        yield
    finally:
        IMPORTED.update({module.__name__}, sys.modules.keys() - known)
        sys.modules.update(others)
        sys.path[:] = before
        sys.meta_path.remove(finder)


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) else None


class AsItStands(SourceFileLoader):
    """
    Reads a file's text, whatever was kept of it.

    Python takes compiled code for a file's own if both are of one second and the text is as long
    as it was: a bound that is changed from 2 to 3 would go unnoticed.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of the text as it stands."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class Itself(MetaPathFinder):
    """Finds a module that is imported already, by whatever name its file has; others afresh."""

    def __init__(self, module: ModuleType, file: Path) -> None:
        self.module = module
        self.file = file

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module itself for its own file; a file of the user's, read as it stands."""
        found = PathFinder.find_spec(name, path, target)
        if found is None or found.origin is None:
            return None
        if Path(found.origin).resolve() == self.file:
            return ModuleSpec(name, Known(self.module), origin=found.origin)
        if type(found.loader) is SourceFileLoader and not is_installed(Path(found.origin)):
            found.loader = AsItStands(name, found.origin)
            found.cached = None
        return found


class Known(Loader):
    """Hands out a module that is imported already."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.own = module.__spec__

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        """The module."""
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it is."""
        module.__spec__ = self.own


# ── What was imported ───────────────────────────────────────────────────────────────────────


def digest_of_imported() -> str:
    """
    The digest of all that the user's files brought along so far: of their packages as a whole.

    Of installed libraries, the files that were imported with them count. What an import statement
    names that has not been carried out yet (it stands in a function) counts as well.
    """
    files: dict[str, str] = {}
    own: list[Path] = []
    tops: set[str] = set()
    for name in sorted(IMPORTED & sys.modules.keys()):
        top = name.partition(".")[0]
        file = _file_of(sys.modules[name])
        if file is None or top in {"herdproof", "herdspec"}:
            continue
        if top in sys.stdlib_module_names and is_installed(file):
            continue  # a neighbour's file may have such a name, too
        if not is_installed(file):
            own.append(file)
            tops |= {top} if not top.startswith(OWN) else set()
        home = _file_of(sys.modules.get(top, sys.modules[name]))
        name = file.stem if name.startswith(OWN) else name  # which tells the file's place, too
        if home is not None and home.name == "__init__.py" and not is_installed(home):
            files[top] = sources(home.parent)
        elif file.suffix == ".py":
            files[name] = hashed(file.read_text(encoding="utf-8"))
        else:
            files[name] = hashed(file.read_bytes().hex())
    modules = (part for pair in sorted(files.items()) for part in pair)
    return hashed("modules", digest_from(own, tops), *modules)
