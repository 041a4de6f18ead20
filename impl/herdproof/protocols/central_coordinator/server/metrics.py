"""
A coordinator's counters and measurements, as Prometheus reads them.

Nothing is labelled by consumer, and by group only the state of the first `GROUPS` of them, and what
these wait for: their number has no bound that a monitoring system likes.
"""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from herdproof.protocols.central_coordinator.events import Report
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.server.group_states import GroupStates
from herdproof.protocols.central_coordinator.wire.messages import Frame
from herdproof.protocols.election.metrics import ZooKeeperFigures
from herdproof.shells.figures import SECONDS, CoordinatorFigures, ServerFigures
from herdproof.shells.tallies import LabelCounts

GROUPS = 100
"""The most groups that have a label of their own; all others are told together, as of ""."""


class Metrics(ServerFigures):
    """The figures; the server calls these methods, Prometheus reads `registry`."""

    def __init__(self) -> None:
        super().__init__()
        registry = self.registry
        self.coordinator = CoordinatorFigures(
            registry, "From the Stops of a rebalance to its last answer."
        )
        self.zookeeper = ZooKeeperFigures(registry)
        self._received = LabelCounts(
            "herdproof_frames_received", "Frames that came.", "message", registry
        )
        self._sent = LabelCounts(
            "herdproof_frames_sent", "Frames that went out.", "message", registry
        )
        self._reports = LabelCounts(
            "herdproof_reports", "What the core reported; `reports.py` lists it.", "what", registry
        )
        self._whole_rebalances = Histogram(
            "herdproof_rebalance_whole_seconds", "From asking for a rebalance to its last answer.",
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self._unread = Counter(
            "herdproof_unread_seconds", "While some partitions of a group had no reader.",
            ["group", "why"], registry=registry,
        )  # fmt: skip
        self._groups: dict[str, None] = {}
        """The groups that have a label, in the order in which they got it."""
        self.group_states = GroupStates(self._groups, registry)

    def received(self, frame: Frame) -> None:
        """A frame came."""
        self._received.counts[type(frame.message)] += 1

    def sent(self, frame: Frame) -> None:
        """A frame went out."""
        self._sent.counts[type(frame.message)] += 1

    def reported(self, report: Report) -> None:
        """The core reported something."""
        self._reports.counts[report.what] += 1
        match report.what:
            case What.MEMBER_JOINED | What.MEMBER_RESUMED:
                self.coordinator.members.inc()
                self._label_of(report.group)
            case What.MEMBER_LOST:
                self.coordinator.members.dec()
            case What.STEPPED_DOWN:
                self.coordinator.members.set(0)
            case What.UNREAD:
                self._was_unread(report.group, **dict(report.details))
            case What.REBALANCE_DONE:
                self._rebalanced(**dict(report.details))

    def _was_unread(self, group: str, why: str | int = "", ms: str | int = 0) -> None:
        self._unread.labels(self._label_of(group), why).inc(float(ms) / 1000)

    def _label_of(self, group: str) -> str:
        """A group's label: its own, if it came early enough."""
        if group not in self._groups and len(self._groups) < GROUPS:
            self._groups[group] = None
        return group if group in self._groups else ""

    def _rebalanced(self, ms: str | int, whole_ms: str | int, **_: str | int) -> None:
        self.coordinator.rebalances.observe(float(ms) / 1000)
        self._whole_rebalances.observe(float(whole_ms) / 1000)
