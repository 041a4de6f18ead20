"""
Code of the user's own, held to its spec: what `verify FILE.py --code MODULE:Adapter` adds.

The adapter is named on the command line, or stands beside the spec: as `CODE = Adapter`, as
`CODE = {"LEASE": Adapter}` in a file of several specs, or as the only adapter class in the file.
What is checked of it, `conformance/checks.py` says.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from herdproof.cli.loading import digest_of_imported, imported_beside
from herdproof.conformance.adapter import Adapter, check_adapter, is_adapter
from herdproof.conformance.checks import Code
from herdspec.check.digest import hashed
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject

# ── Which code ──────────────────────────────────────────────────────────────────────────────


def code_of(subjects: Sequence[Subject], named: str | None) -> dict[str, Code]:
    """The code of each spec of a file that has some, by the spec's name; raises `UsageError`."""
    module = sys.modules[subjects[0].module]
    if named is not None:
        of = the_one(subjects, f"--code {named}")
        wanted: Mapping[str, type[Adapter]] = {of.name: adapter_named(named, module)}
    else:
        wanted = beside(module, subjects)
    by_name = {subject.name: subject for subject in subjects}
    for name, adapter in wanted.items():
        check_adapter(by_name[name].spec, adapter)
    digest = hashed("code", named or "", digest_of_imported()) if wanted else ""
    return {name: Code(adapter, digest) for name, adapter in wanted.items()}


def the_one(subjects: Sequence[Subject], code: str) -> Subject:
    """The one spec of some that code can be held to: of which no failure is declared."""
    sound = [s for s in subjects if not s.declared] or [*subjects]
    if len(sound) > 1:
        names = ", ".join(s.name for s in sound)
        raise UsageError(
            f"{code} may be the code of several specs: {names}; name one (FILE.py:{sound[0].name}),"
            f' or write CODE = {{"{sound[0].name}": …}} in their file'
        )
    return sound[0]


def adapter_named(text: str, module: ModuleType) -> type[Adapter]:
    """The adapter `MODULE:NAME` or `FILE.py:NAME`, of a spec in this module."""
    place, colon, name = text.rpartition(":")
    if not (colon and place and name.isidentifier()):
        raise UsageError(
            f"--code {text}: write MODULE:NAME, the module (or FILE.py) of an adapter and its class"
        )
    found = imported_beside(place, module)
    value = getattr(found, name, None)
    if not is_adapter(value):
        known = ", ".join(adapters_in(found)) or "none"
        what = "is no adapter" if hasattr(found, name) else "is not there"
        raise UsageError(f"--code {text}: {name} {what}; the adapters of {place}: {known}")
    return cast(type[Adapter], value)


def beside(module: ModuleType, subjects: Sequence[Subject]) -> Mapping[str, type[Adapter]]:
    """The adapters that a file of specs names, by spec."""
    path = module.__file__
    code: Any = getattr(module, "CODE", None)
    if code is None:
        own = [v for v in adapters_in(module).values() if v.__module__ == module.__name__]
        if not own:
            return {}
        if len(own) > 1:
            names = ", ".join(a.__name__ for a in own)
            raise UsageError(
                f"{path} has several adapters ({names}): write CODE = {own[0].__name__}"
            )
        code = own[0]
    table = code if isinstance(code, Mapping) else None
    for value in table.values() if table is not None else [code]:
        if not is_adapter(value):
            raise UsageError(
                f"{path}: CODE names {value!r}; write CODE = Adapter, a class that derives from"
                f' herdproof.testing.Adapter, or CODE = {{"SPEC": Adapter}}'
            )
    if table is None:
        return {the_one(subjects, f"{path}: CODE").name: code}
    return {s.name: table[s.name] for s in subjects if s.name in table}


def adapters_in(module: ModuleType) -> dict[str, type[Adapter]]:
    """The classes of adapters that a module knows, by name."""
    return {name: value for name, value in vars(module).items() if is_adapter(value)}
