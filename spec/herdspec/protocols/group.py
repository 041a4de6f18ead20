"""Whom every group protocol is about."""

from __future__ import annotations

from herdspec.language.surface import Sort


class Member(Sort):
    """A member of the group; where a protocol has connections, a consumer over one of them."""


class Partition(Sort):
    """A partition of a topic."""
