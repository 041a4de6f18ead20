"""What is seen of deliveries: who read what, and what the contract cares about."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from herdproof.cli.run.demo.observation import (
    SILENT_S,
    Delivery,
    Observations,
    Silence,
    longest_after,
)


def given(
    reader: str, number: int, had_s: float, *, asked_s: float | None = None, life: int = 1,
    generation: int = 1, partition: int = 0,
) -> Delivery:  # fmt: skip
    """A delivery that was asked for shortly before."""
    asked = had_s - 0.01 if asked_s is None else asked_s
    return Delivery(reader, life, partition, number, generation, asked, had_s)


def seen(*deliveries: Delivery, sent: Iterable[int] = (), partitions: int = 1) -> Observations:
    """What is seen of these; the records of partition 0 that Kafka has acknowledged are `sent`."""
    observations = Observations(partitions)
    for number in sent:
        observations.sent(0, number)
    for delivery in deliveries:
        observations.delivered(delivery)
    return observations


# ── Two readers at once ─────────────────────────────────────────────────────────────────────


def test_a_handover_is_no_overlap() -> None:
    """Whoever has stopped may be followed by another at once, and may come back."""
    observed = seen(
        given("1", 0, 1.0), given("1", 1, 2.0), given("2", 2, 2.05, generation=2),
        given("2", 3, 3.0, generation=2), given("1", 4, 3.05, generation=3),
    )  # fmt: skip

    assert observed.read_by_two == 0


def test_who_asks_and_gets_more_while_another_reads_is_found() -> None:
    """Consumer 1 was given a record, for which it asked when consumer 2 had been given some."""
    observed = seen(
        given("1", 0, 1.0), given("2", 1, 2.0, generation=2), given("2", 2, 3.0, generation=2),
        given("1", 1, 4.0),
    )  # fmt: skip

    assert observed.read_by_two == 1


def test_one_record_amid_another_s_is_found() -> None:
    """A tenure of a single record overlaps, too, in whatever order the lines are read."""
    own, other = [given("1", 0, 1.0), given("1", 2, 4.0)], given("2", 1, 2.0, generation=2)

    assert seen(*own, other).read_by_two == seen(other, *own).read_by_two == 1


def test_who_was_paused_amid_a_record_is_not_accused() -> None:
    """It asked before the pause and tells after it: it may have been given the record before."""
    observed = seen(
        given("1", 0, 1.0), given("2", 1, 6.0, generation=2), given("2", 2, 9.0, generation=2),
        given("1", 1, 9.5, asked_s=1.01),
    )  # fmt: skip

    assert observed.read_by_two == 0
    assert observed.again == 1


def test_tenures_of_one_process_never_overlap_themselves() -> None:
    """A consumer that keeps a partition has it in one generation after the other."""
    both = [given("1", 0, 1.0), given("1", 1, 3.0), given("1", 1, 2.0, generation=2)]
    other_life = [given("1", 0, 1.0), given("1", 1, 3.0), given("1", 1, 2.0, life=2)]

    assert seen(*both).read_by_two == 0
    assert seen(*other_life).read_by_two == 1


# ── Lost, and again ─────────────────────────────────────────────────────────────────────────


def test_a_record_below_a_later_one_is_lost() -> None:
    """What is still to come waits; what was passed over is lost."""
    observed = seen(given("1", 0, 1.0), given("1", 2, 1.1), sent=range(5))

    assert observed.lost == 1
    assert observed.waiting == 3
    assert observed.acknowledged == 5


def test_a_record_that_kafka_never_had_is_not_lost() -> None:
    """Only what was acknowledged has to be delivered."""
    assert seen(given("1", 0, 1.0), given("1", 2, 1.1), sent=[0, 2]).lost == 0


def test_a_record_that_comes_late_is_lost_no_longer() -> None:
    """A reader that goes back finds it; what it reads besides is read again."""
    observed = seen(
        given("1", 0, 1.0), given("1", 2, 1.1), given("2", 1, 2.0), given("2", 2, 2.1),
        sent=range(3),
    )  # fmt: skip

    assert (observed.lost, observed.waiting, observed.again) == (0, 0, 1)


# ── Who reads what ──────────────────────────────────────────────────────────────────────────


def test_deliveries_are_drawn_together_until_one_is_late() -> None:
    """A stretch ends where the next record takes longer than half a second."""
    late_s = 1.2 + SILENT_S + 0.1
    observed = seen(given("1", 0, 1.0), given("1", 1, 1.2), given("1", 2, late_s))

    assert [(s.since_s, s.until_s) for s in observed.stretches(0)] == [(1.0, 1.2), (late_s, late_s)]
    assert observed.silences(0, 1.0, late_s) == [Silence(0, 1.2, late_s)]


@pytest.mark.parametrize(("now_s", "reader"), [(1.4, "1"), (1.6, None)])
def test_nobody_reads_after_half_a_second(now_s: float, reader: str | None) -> None:
    """Who reads now is who was given a record just now."""
    found = seen(given("1", 0, 1.0)).reader(0, now_s)

    assert (found and found.reader) == reader


def test_silence_is_measured_over_all_readers() -> None:
    """From the beginning, between readers, and until now; one within another's time is none."""
    observed = seen(
        given("1", 0, 2.0), given("1", 1, 2.3), given("1", 2, 2.6), given("2", 1, 2.2),
        given("2", 3, 4.0),
    )  # fmt: skip

    assert observed.silences(0, 0.0, 5.0) == [
        Silence(0, 0.0, 2.0), Silence(0, 2.6, 4.0), Silence(0, 4.0, 5.0),
    ]  # fmt: skip


def test_the_rate_is_of_the_last_moments() -> None:
    """What was delivered long ago does not count."""
    observed = seen(given("1", 0, 1.0), given("1", 1, 9.0), given("1", 2, 9.5))

    assert observed.rate(10.0, over_s=2.0) == 1.0


def test_all_are_read_when_each_partition_was() -> None:
    """One without a delivery is enough to wait for."""
    assert not seen(given("1", 0, 1.0), partitions=2).all_are_read
    assert seen(given("1", 0, 1.0), given("1", 0, 1.0, partition=1), partitions=2).all_are_read


def test_an_act_answers_for_what_began_before_the_next() -> None:
    """The longest counts; it may begin a little before the act, at the last record before it."""
    early, long, later = Silence(0, 9.8, 12.0), Silence(1, 10.0, 15.0), Silence(2, 20.0, 29.0)

    assert longest_after(10.0, 20.0, [early, long, later]) == long
    assert longest_after(10.0, 20.0, [early]) == early
    assert longest_after(10.0, 20.0, [Silence(0, 9.0, 12.0), later]) is None
