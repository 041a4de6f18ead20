"""Mistakes in the group protocol that no promise notices, and why they may live."""

from __future__ import annotations

from collections.abc import Mapping

SURVIVORS: Mapping[str, str] = {}
"""Each survivor, and why it is accepted."""
