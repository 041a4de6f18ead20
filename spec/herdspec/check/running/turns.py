"""
Quantifiers of plain Python that look at every turn, as the other readings do.

Python's `all` and `any` stop at the first turn that decides. Elements of a sort have no order, so
whether a later turn has a meaning must not hang on which one comes first.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any


@contextmanager
def every_turn() -> Iterator[None]:
    """Let `all` and `any` look at every turn, in this thread; for telling, not for speed."""
    kept = builtins.all, builtins.any
    builtins.all, builtins.any = map(_looking_at_all, kept)
    try:
        yield
    finally:
        builtins.all, builtins.any = kept


def _looking_at_all(
    plain: Callable[[Iterable[object]], bool],
) -> Callable[[Iterable[object]], bool]:
    here = get_ident()

    def quantified(turns: Iterable[Any], /) -> bool:
        return plain([*turns] if get_ident() == here else turns)

    return quantified
