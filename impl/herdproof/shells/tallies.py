"""
Counts and moments of a process's one loop, as Prometheus reads them.

Prometheus's own are for many threads: to take a lock takes longer than to count what happens some
ten thousand times a second. These are written by one thread, and read by another as they stand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector


class LabelCounts(Collector):
    """A counter with one label; of a class the label is its name."""

    def __init__(
        self, name: str, documentation: str, label: str, registry: CollectorRegistry
    ) -> None:
        self._describes = name, documentation
        self._label = label
        self.counts: Counter[Any] = Counter()
        registry.register(self)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The counts so far."""
        family = CounterMetricFamily(*self._describes, labels=[self._label])
        for what, count in self.counts.copy().items():
            family.add_metric([what.__name__ if isinstance(what, type) else str(what)], count)
        yield family


class Moments(Collector):
    """A histogram without labels; `buckets` are in order."""

    def __init__(
        self, name: str, documentation: str, buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._describes = name, documentation
        self._buckets = (*buckets, inf)
        self._counts = [0] * len(self._buckets)
        self._sum = 0.0
        registry.register(self)

    def observe(self, seconds: float) -> None:
        """Something took so long."""
        self._counts[bisect_left(self._buckets, seconds)] += 1
        self._sum += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The moments so far."""
        family = HistogramMetricFamily(*self._describes)
        below, buckets = 0, []
        for bucket, count in zip(self._buckets, self._counts.copy(), strict=True):
            below += count
            buckets.append(("+Inf" if bucket == inf else str(bucket), below))
        family.add_metric([], buckets, self._sum)
        yield family
