"""What a spec's author did wrong, said with its place and with what to write instead."""

from __future__ import annotations


class SpecError(Exception):
    """
    A spec uses something that its readings do not all understand.

    `file` and `line` (1-based) say where, `construct` what was found, `advice` what to write
    instead.
    """

    def __init__(self, file: str, line: int, construct: str, advice: str) -> None:
        super().__init__(f"{file}:{line}: {construct}; {advice}")
        self.file = file
        self.line = line
        self.construct = construct
        self.advice = advice


class UsageError(Exception):
    """A checker was asked for something that cannot be done; the message says what to do."""


class NothingWithin(UsageError):
    """No initial state is within the bound of naturals that a search was given."""
