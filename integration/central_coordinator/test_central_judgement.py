"""The judgement of system B's scenarios sees each thing that it is there to see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from integration.central_coordinator.central_judgement import Evidence, Seen, judge

PLACE = ("t", 0)


def told(event: str, consumer: str, at: float, **more: object) -> Seen:
    """A line that a consumer could have reported."""
    return Seen(event=event, consumer=consumer, at=at, **more)  # type: ignore[arg-type]


def records(consumer: str, offsets: Iterable[int], since: float, generation: int) -> list[Seen]:
    """Records, one a second."""
    return [
        told("record", consumer, since + n, place=PLACE, offset=offset, generation=generation)
        for n, offset in enumerate(offsets)
    ]


GOOD = Evidence(
    seen=[
        told("assigned", "a", 0.0, places=(PLACE,)),
        *records("a", range(5), 1.0, generation=1),
        told("revoked", "a", 6.0, stopped=True),
        told("assigned", "a", 6.5),
        told("assigned", "b", 7.0, places=(PLACE,)),
        *records("b", range(5, 9), 8.0, generation=2),
    ],
    produced={(PLACE, offset): offset + 0.5 for offset in range(9)},
    committed={PLACE: [(2.5, 1), (5.9, 5), (10.5, 7)]},
    points=[(1.5, 1, 1), (7.0, 2, 2)],
)
"""Two consumers, one after the other; a failover between them."""


def judged(evidence: Evidence) -> str:
    """As the scenarios do."""
    return judge(evidence, epochs=2, generations=2, behind_s=3.0)


def test_what_is_as_it_must_be_passes() -> None:
    """Nothing is wrong with it, and the summary counts."""
    assert judged(GOOD) == (
        "9 records, 0 of them again, 1 changes of hands, 1 failovers, 1 generations"
    )


def without_record(evidence: Evidence, offset: int) -> Evidence:
    """A consumer dropped a record."""
    return replace(evidence, seen=[line for line in evidence.seen if line.offset != offset])


def from_b(evidence: Evidence, offsets: Iterable[int], *, lost: bool = False) -> Evidence:
    """The second consumer gets these instead; the first one may lose its coordinator before."""
    seen = [line for line in evidence.seen if line.consumer == "a" or line.event != "record"]
    words = [told("lost", "a", 5.5)] if lost else []
    return replace(
        evidence, seen=[*seen[:6], *words, *seen[6:], *records("b", offsets, 8.0, generation=2)]
    )


def shifted(evidence: Evidence, seconds: float) -> Evidence:
    """The second consumer's time is another one."""
    moved = [
        replace(line, at=line.at + seconds) if line.consumer == "b" else line
        for line in evidence.seen
    ]
    return replace(evidence, seen=moved)


SPOILT: dict[str, Callable[[Evidence], Evidence]] = {
    "1 of 9 records were lost": lambda e: without_record(e, 8),
    "nobody_is_past_the_unfinished": lambda e: from_b(e, [5, 6, 8, 7, 8]),
    "after": lambda e: from_b(e, [5, 6, 7, 6, 8]),
    "exclusive": lambda e: shifted(e, -2.0),
    "owners_change_with_the_generation": lambda e: replace(
        e, seen=[replace(line, generation=1) for line in e.seen]
    ),
    "generations_never_go_back": lambda e: replace(
        e, seen=[replace(x, generation=3) if x.offset == 2 else x for x in e.seen]
    ),
    "2 again after a Stop": lambda e: replace(
        from_b(e, range(3, 9)), committed={PLACE: [(2.5, 1), (11.5, 7)]}
    ),
    "4.0 s again": lambda e: replace(
        from_b(e, range(9), lost=True), committed={PLACE: [(15.5, 7)]}
    ),
    "who_begins_does_so_at_the_stored_offset": lambda e: from_b(e, range(4, 9)),
    "committed_offsets_never_go_back": lambda e: replace(
        e, committed={PLACE: [(3.5, 3), (5.9, 2)]}
    ),
    "10 is stored, 9 are finished": lambda e: replace(e, committed={PLACE: [(11.5, 10)]}),
    "no offset of": lambda e: replace(e, committed={}),
    "epochs_never_go_back": lambda e: replace(e, points=[(1.5, 2, 1), (7.0, 1, 2)]),
    "few failovers": lambda e: replace(e, points=[(1.5, 1, 1), (7.0, 1, 2)]),
    "few rebalances": lambda e: replace(e, points=[(1.5, 1, 1), (7.0, 2, 1)]),
}
"""What is done to the evidence, by what must be said of it."""


@pytest.mark.parametrize("complaint", SPOILT)
def test_what_is_wrong_is_said(complaint: str) -> None:
    """Each kind of wrong fails, and is named."""
    with pytest.raises(AssertionError, match=complaint):
        judged(SPOILT[complaint](GOOD))


def test_offsets_that_died_with_a_coordinator_may_come_again() -> None:
    """What was answered to a Stop is not stored if its coordinator dies before the handover."""
    stored = {PLACE: [(2.5, 1), (12.5, 7)]}

    lost = judged(replace(from_b(GOOD, range(3, 9), lost=True), committed=stored))

    assert lost.startswith("9 records, 2 of them again")


def test_a_failover_after_the_last_record_does_not_count() -> None:
    """A fault that met nothing tried nothing."""
    with pytest.raises(AssertionError, match="few failovers"):
        judged(replace(GOOD, points=[(1.5, 1, 1), (7.0, 1, 2), (20.0, 2, 2)]))
