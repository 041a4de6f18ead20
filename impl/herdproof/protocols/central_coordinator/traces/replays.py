"""Replays in the specs: lines that are in order, handed to the protocol's own judge."""

from __future__ import annotations

from collections.abc import Sequence

from herdproof.conformance.traces.replay import Watches
from herdproof.pipeline.audit.auditor import Replayed
from herdproof.pipeline.audit.replayed import replayed
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.traces.trace_map import conform_lines
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR


def replay_central(lines: Sequence[CentralStep], watches: Watches | None = None) -> Replayed:
    """
    One group's lines, in order, replayed in the spec of the central coordinator.

    Their numbers are not looked at: other groups' lines would be gaps. (What is one is known
    before.) `watches` as in `conform_lines`.
    """
    outcome = conform_lines(lines, watches=watches, whole=False)
    at = outcome.matched
    time_ns = lines[at].time_ns if at < len(lines) else None
    return replayed(outcome, CENTRAL_COORDINATOR, time_ns)
