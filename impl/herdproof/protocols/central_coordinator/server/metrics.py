"""
A coordinator's counters and measurements, as Prometheus reads them.

Each server has a registry of its own, so that two of them can live in one process (tests do that).
Nothing is labelled by consumer, and by group only the state of the first `GROUPS` of them, and what
these wait for: their number has no bound that a monitoring system likes.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from herdproof.protocols.central_coordinator.events import Report
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.server.group_states import GroupStates
from herdproof.protocols.central_coordinator.wire.messages import Frame
from herdproof.shells.health import Health
from herdproof.shells.holds import Holds
from herdproof.shells.tallies import LabelCounts, Moments
from herdproof.zookeeper.operations import Answer, Operation, Refusal

SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""The buckets of waits: for ZooKeeper, for a rebalance."""
GROUPS = 100
"""So many groups have a label of their own; of the others all is told together, as of ""."""
MOMENTS = (0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0)
"""The buckets of what the core itself takes for one event."""


class Metrics:
    """The figures; the server calls these methods, Prometheus reads `registry`."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._kinds: dict[type[Operation], Histogram] = {}
        self.health = Health()
        self.holds = Holds(registry)
        self.leads = Gauge(
            "herdproof_leads", "Whether this broker coordinates (0 or 1).", registry=registry
        )
        self.epoch = Gauge(
            "herdproof_epoch", "The last epoch that this broker led in.", registry=registry
        )
        self.linked = Gauge(
            "herdproof_zookeeper_connected", "Whether ZooKeeper is reached (0 or 1).",
            registry=registry,
        )  # fmt: skip
        self.channels = Gauge("herdproof_connections", "Open connections.", registry=registry)
        self._cuts = Counter(
            "herdproof_connections_cut", "Connections that this end had a reason to end.",
            ["reason"], registry=registry,
        )  # fmt: skip
        self._received = LabelCounts(
            "herdproof_frames_received", "Frames that came.", "message", registry
        )
        self._sent = LabelCounts(
            "herdproof_frames_sent", "Frames that went out.", "message", registry
        )
        self._operations = Histogram(
            "herdproof_zookeeper_seconds", "From asking ZooKeeper to its answer.", ["operation"],
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self._refusals = Counter(
            "herdproof_zookeeper_refusals", "What ZooKeeper refused, or did not answer.", ["why"],
            registry=registry,
        )  # fmt: skip
        self.event_seconds = Moments(
            "herdproof_event_seconds", "What the core takes for one event.", MOMENTS, registry
        )
        self._reports = LabelCounts(
            "herdproof_reports", "What the core reported; `reports.py` lists it.", "what", registry
        )
        self._members = Gauge(
            "herdproof_members", "Members of all groups that it coordinates.", registry=registry
        )
        self._rebalances = Histogram(
            "herdproof_rebalance_seconds", "From the Stops of a rebalance to its last answer.",
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self._whole_rebalances = Histogram(
            "herdproof_rebalance_whole_seconds", "From asking for a rebalance to its last answer.",
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self._unread = Counter(
            "herdproof_unread_seconds", "While some partitions of a group had no reader.",
            ["group", "why"], registry=registry,
        )  # fmt: skip
        self._groups: dict[str, None] = {}
        """Those that have a label, in the order in which they got it."""
        self.group_states = GroupStates(self._groups, registry)

    def cut(self, reason: str) -> None:
        """A connection was ended for a reason of this end's own."""
        self._cuts.labels(reason).inc()

    def received(self, frame: Frame) -> None:
        """A frame came."""
        self._received.counts[type(frame.message)] += 1

    def sent(self, frame: Frame) -> None:
        """A frame went out."""
        self._sent.counts[type(frame.message)] += 1

    def asked(self, operation: Operation, answer: Answer, seconds: float) -> None:
        """ZooKeeper answered after so long."""
        self._of(type(operation)).observe(seconds)
        if isinstance(answer, Refusal):
            self._refusals.labels(answer.why.value).inc()

    def _of(self, kind: type[Operation]) -> Histogram:
        """The histogram of such operations; to look it up by its name is slow."""
        if kind not in self._kinds:
            self._kinds[kind] = self._operations.labels(kind.__name__)
        return self._kinds[kind]

    def reported(self, report: Report) -> None:
        """The core reported something."""
        self._reports.counts[report.what] += 1
        match report.what:
            case What.MEMBER_JOINED | What.MEMBER_RESUMED:
                self._members.inc()
                self._label_of(report.group)
            case What.MEMBER_LOST:
                self._members.dec()
            case What.STEPPED_DOWN:
                self._members.set(0)
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
        self._rebalances.observe(float(ms) / 1000)
        self._whole_rebalances.observe(float(whole_ms) / 1000)
