"""
Errors that the checkers raise, by whose doing it is: a spec's author, or whoever asks about a spec.

Exceptions that never leave the package are none of these.
"""

from __future__ import annotations


class HerdspecError(Exception):
    """Something that its reader can put right: the message says what is wrong and what to do."""


class SpecError(HerdspecError):
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


class UsageError(HerdspecError):
    """A checker was asked for something that cannot be done; the message says what to do."""


class NothingWithin(UsageError):
    """No initial state is within the bound of naturals that a search was given."""
