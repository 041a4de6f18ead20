"""
Consumer-group coordination that is specified, proved, tested and run from one source.

An `Adapter` holds real code to a spec; a `Tracer` writes down what code does, and a `TraceMap` says
what its lines are to the spec; an `Implementation` is what commands know of a protocol beside its
spec; a `Consumer` is a member of a consumer group. Specs are written with `herdspec`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter
    from herdproof.conformance.traces.mapping import TraceMap
    from herdproof.conformance.traces.tracer import Tracer
    from herdproof.consumer import Consumer
    from herdproof.protocols.implementation import Implementation

__all__ = ["Adapter", "Consumer", "Implementation", "TraceMap", "Tracer"]

_MODULES = {
    "Adapter": "herdproof.conformance.adapter",
    "Consumer": "herdproof.consumer",
    "Implementation": "herdproof.protocols.implementation",
    "TraceMap": "herdproof.conformance.traces.mapping",
    "Tracer": "herdproof.conformance.traces.tracer",
}


def __getattr__(name: str) -> Any:
    """A public name, once it is asked for: neither Kafka's client nor a checker need be there."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
