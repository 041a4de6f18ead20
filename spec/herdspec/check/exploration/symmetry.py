"""Symmetry asked for, taken where it is exact, and refused where it would be unsound."""

from __future__ import annotations

from herdspec.engine.columns import Packing, asymmetric, symmetric
from herdspec.engine.ground import Ground
from herdspec.language.errors import UsageError


def packing_for(ground: Ground, symmetry: bool | None) -> Packing:
    """
    The packing of states; `symmetry` True raises `UsageError` where it would lose states.

    Without a wish (None) it is taken where it is exact.
    """
    if symmetry and symmetric(ground) is None:
        reasons = [asymmetric(ground, sort) for sort in ground.spec.sorts]
        raise UsageError(
            f"states of {ground.spec.name} cannot be taken up to renaming, some would be lost: "
            f"{'; '.join(reasons) or 'it has no sort'}; leave symmetry to the explorer, or off"
        )
    return Packing(ground, symmetry is not False)
