"""What a loop counts by itself is what Prometheus reads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from herdproof.shells.tallies import LabelCounts, Moments


def test_counts_are_a_counter_by_its_label() -> None:
    """A class is counted by its name, a text as it is."""
    registry = CollectorRegistry()
    tally = LabelCounts("seen", "What was seen.", "what", registry)
    tally.counts[int] += 2
    tally.counts["a word"] += 1

    assert registry.get_sample_value("seen_total", {"what": "int"}) == 2
    assert registry.get_sample_value("seen_total", {"what": "a word"}) == 1


def test_moments_are_a_histogram() -> None:
    """A bucket has all that took as long as it says, or less."""
    registry = CollectorRegistry()
    moments = Moments("took", "How long it took.", (0.5, 2.0), registry)
    for seconds in (0.25, 0.5, 1.0, 4.0):
        moments.observe(seconds)

    below = {"0.5": 2, "2.0": 3, "+Inf": 4}
    for le, count in below.items():
        assert registry.get_sample_value("took_bucket", {"le": le}) == count
    assert registry.get_sample_value("took_sum") == 5.75
    assert registry.get_sample_value("took_count") == 4
