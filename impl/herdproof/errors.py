"""The base of every exception that this package raises on purpose."""

from __future__ import annotations


class HerdError(Exception):
    """Something that its reader can put right: the message says what is wrong and what to do."""


class Signalled(SystemExit):
    """A signal ends this process; any other `SystemExit` may be of code that is looked at."""
