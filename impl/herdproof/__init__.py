"""Consumer-group coordination that is specified, proved, tested and run from one source."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from herdproof.consumer import Consumer

__all__ = ["Consumer"]

# A library says nothing of its own accord: whoever uses it decides where its log goes.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    """`Consumer`, once it is asked for: Kafka's client need not be there for all the rest."""
    if name in __all__:
        from herdproof import consumer

        return getattr(consumer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
