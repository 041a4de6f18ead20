"""Looks for garbage seldom, or for a short time only, where much lives on and few cycles are."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def few_collections() -> Iterator[None]:
    """Within this context garbage is seldom looked for."""
    yield from thresholds(100_000, 50, 100)


@contextmanager
def short_collections() -> Iterator[None]:
    """
    Within this context no look for garbage takes long: it goes through few objects, and often.

    Every other look goes through those of the one before, too, and then through none of them any
    more: all are gone through as seldom as within `few_collections`, which is hardly ever.
    """
    yield from thresholds(5_000, 0, 60_000)


@contextmanager
def task_of_worker() -> Iterator[None]:
    """
    Within this context, a task of a worker of Spark's, garbage is seldom looked for.

    Spark has all of a worker's objects looked through after every task. What stays (modules, the
    specs, compiled steps) is not looked through again.
    """
    with few_collections():
        yield
    gc.collect()
    gc.freeze()


def thresholds(*three: int) -> Iterator[None]:
    """Have other thresholds of the three generations for a while."""
    before = gc.get_threshold()
    gc.set_threshold(*three)
    try:
        yield
    finally:
        gc.set_threshold(*before)
