"""
The exceptions that this package raises on purpose, by whose doing it is.

A subclass says more; one that derives from `HerdError` itself is a mistake of our own, which nobody
else can put right. Exceptions that never leave the package are none of these.
"""

from __future__ import annotations


class HerdError(Exception):
    """Something that its reader can put right: the message says what is wrong and what to do."""


class CallerError(HerdError):
    """The caller asked for what cannot be: an argument, a setting, a call at the wrong time."""


class PeerError(HerdError):
    """The other side did what it must not, or refused what it was asked for."""


class Malformed(PeerError):
    """Bytes, or a line, that are none: `reason` as the quarantine's, `why` what is wrong."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(reason, why)
        self.reason = reason
        self.why = why

    def __str__(self) -> str:
        return self.why


class WorldError(HerdError):
    """The world is in the way: something is missing, taken, out of reach or too slow."""


class NotOurs(CallerError):
    """A directory that is to be written holds something that was not written for the same end."""


class NotInTime(WorldError):
    """An event that was waited for did not come about in time: nothing is known."""


class Signalled(SystemExit):
    """A signal ends this process; any other `SystemExit` may be of code that is looked at."""
