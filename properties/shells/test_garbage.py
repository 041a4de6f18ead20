"""How garbage is looked for: seldom, or for a short time."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from weakref import ref

import pytest

from herdproof.garbage import few_collections, short_collections, task_of_worker

Context = Callable[[], AbstractContextManager[None]]


@pytest.mark.parametrize("context", [few_collections, short_collections, task_of_worker])
def test_the_thresholds_are_put_back(context: Context) -> None:
    """Once the context is left, garbage is looked for as before."""
    before = gc.get_threshold()

    with context():
        within = gc.get_threshold()
    gc.unfreeze()

    assert within != before == gc.get_threshold()


def test_no_look_goes_through_many_objects() -> None:
    """Where looks are short, each goes through few objects, of the young and of the middle ones."""
    with short_collections():
        young, middle, _ = gc.get_threshold()

    assert young * (middle + 2) <= 10_000


class InACycle:
    """Refers to itself: only a look for garbage finds it."""

    def __init__(self) -> None:
        self.itself = self


def test_what_a_task_leaves_is_not_looked_through_again() -> None:
    """What is garbage when a task ends is gone; all else is frozen."""
    with task_of_worker():
        stays = InACycle()
        goes = ref(InACycle())
    looked_through = {id(each) for each in gc.get_objects()}
    gc.unfreeze()

    assert goes() is None
    assert id(stays) not in looked_through
