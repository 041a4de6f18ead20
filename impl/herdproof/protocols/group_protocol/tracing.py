"""
The trace of system C: a line for each step of a coordinator, or of a client of ours; and for each
answer of Kafka's own coordinator.

Format: `docs/group_protocol_trace.md`. The tracer is an observer of either's shell, or of the
simulator's processes: it is told of every event after the core has taken it, and before anything
that it decided is done. Every `GroupStep` among the core's effects is a line of version 2, named as
the step is; the tracer adds who and when.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from msgspec import structs

from herdproof.conformance.traces.tracer import Clock, Tracer
from herdproof.protocols.group_protocol.steps import GroupStep

if TYPE_CHECKING:
    from herdproof.broker.observing import SeenAnswer

log = logging.getLogger(__name__)

GROUP_PROTOCOL = "group_protocol"
"""The protocol of these traces."""
KAFKA = "kafka"
"""The node, and the role, of lines about Kafka's own coordinator."""
ANSWERED = "(answered)"
"""The action of a line about an answer of it: no step, but what is seen of some."""
UNSEEN_STEPS = "what Kafka's coordinator does between its answers, no line tells"
CONSUMER = "consumer"
"""The role in a client's lines; a coordinator's have none."""


class GroupTracer:
    """Writes the trace of one process, which is a broker, or has the role `CONSUMER`."""

    def __init__(
        self, node: str, run: str, stream: TextIO, clock: Clock = time.time_ns, role: str = ""
    ) -> None:
        self._tracer = Tracer(
            GROUP_PROTOCOL, node, stream, run=run, clock=clock, role=role, repeats=True
        )

    def __call__(self, _core: object, effects: Sequence[object]) -> None:
        """The core has taken an event, which has led to these effects."""
        for effect in effects:
            if isinstance(effect, GroupStep):
                told = {name: value for name, value in structs.asdict(effect).items() if value}
                action, group = told.pop("action"), told.pop("group", "")
                self._tracer.step(action, group=group, arguments=told)


class AnswersTracer:
    """Writes what Kafka's own coordinator answers: of each group that it is about, a line."""

    def __init__(self, run: str, stream: TextIO, clock: Clock = time.time_ns) -> None:
        self._tracer = Tracer(GROUP_PROTOCOL, KAFKA, stream, run=run, role=KAFKA, clock=clock)

    def __call__(self, seen: SeenAnswer) -> None:
        """One was seen; a stream that cannot be written to is not Kafka's trouble."""
        told = {name: value for name, value in structs.asdict(seen).items() if name != "asked_ns"}
        try:
            for group in groups_of(seen):
                self._tracer.step(ANSWERED, group=group, since_ns=seen.asked_ns, arguments=told)
        except OSError:
            log.exception("what Kafka answered could not be written")


def groups_of(seen: SeenAnswer) -> list[str]:
    """The groups that a request names; the empty one, where it is about all."""
    asked = seen.request
    if "group_id" in asked:
        return [str(asked["group_id"])]
    named = next((asked[name] for name in ("groups", "groups_names") if name in asked), None)
    if not isinstance(named, list) or not named:
        return [""]
    return list(dict.fromkeys(str(x["group_id"] if isinstance(x, dict) else x) for x in named))
