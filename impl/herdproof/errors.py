"""The base of every exception that this package raises on purpose."""

from __future__ import annotations


class HerdError(Exception):
    """Something that its reader can put right: the message says what is wrong and what to do."""
