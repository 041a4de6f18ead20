"""
Options by names that were withdrawn: understood for one minor version more, with a warning.

Whoever withdraws one enters it here, and in the changelog under *Withdrawn*.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

GONE_FROM = "0.3"
"""The version that does not understand them any more."""
BOOTSTRAP = {"--bootstrap": "--bootstrap-servers"}
WITHDRAWN: Mapping[str, Mapping[str, str]] = {
    "consume": {**BOOTSTRAP, "--brokers": "--coordinators"},
    "groups": BOOTSTRAP,
    "audit": {**BOOTSTRAP, "--kafka": "--bootstrap-servers"},
}
"""By command, names of options and what these are called instead."""


def warn_of_withdrawn(command: str, words: Sequence[str]) -> None:
    """Say of each withdrawn name that is used, once, what to use instead."""
    known = WITHDRAWN.get(command, {})
    for name in dict.fromkeys(options_of(words)):
        if name in known:
            print(
                f"herdproof {command}: {name} is withdrawn, and unknown from {GONE_FROM} on: say "
                f"{known[name]}",
                file=sys.stderr,
            )


def options_of(words: Sequence[str]) -> Iterator[str]:
    """The long options among a command's words, without their values."""
    for word in words:
        if word == "--":
            return
        if word.startswith("--"):
            yield word.partition("=")[0]
