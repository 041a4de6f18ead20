"""Errors in the use of a broker for tests; each is one sentence."""

from __future__ import annotations

from herdproof.errors import CallerError


class BadBrokerUse(CallerError):
    """A broker for tests cannot do what it was asked for; the sentence says what to do instead."""


class FaultNeverCame(CallerError):
    """A fault was asked for, and no request came that it could strike: the test shows nothing."""
