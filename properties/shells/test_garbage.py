"""How garbage is looked for: seldom, or for a short time."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from herdproof.garbage import few_collections, short_collections

Context = Callable[[], AbstractContextManager[None]]


@pytest.mark.parametrize("context", [few_collections, short_collections])
def test_the_thresholds_are_put_back(context: Context) -> None:
    """Once the context is left, garbage is looked for as before."""
    before = gc.get_threshold()

    with context():
        within = gc.get_threshold()

    assert within != before == gc.get_threshold()


def test_no_look_goes_through_many_objects() -> None:
    """Where looks are short, each goes through few objects, of the young and of the middle ones."""
    with short_collections():
        young, middle, _ = gc.get_threshold()

    assert young * (middle + 2) <= 10_000
