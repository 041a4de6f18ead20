"""The judge of real groups that rebalance by themselves notices each wrong, and whose it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.zookeeper.operations import Create, Delete, Set
from integration.self_rebalancing.rebalancing_judgement import (
    Evidence,
    Judged,
    Line,
    Printed,
    judge,
)
from integration.zookeeper.zookeeper_log import Transaction, Write

OWNER, OFFSET, CLAIM = (
    "/consumers/g/owners/t/0", "/consumers/g/offsets/t/0", "/herdproof/claims/g/t/0"
)  # fmt: skip
A, B = 1, 2
"""The sessions of a and b; a has partition 0 of t first, then b."""


def claim(name: str) -> tuple[Write, ...]:
    """How one of ours claims."""
    data = name.encode()
    return Create(OWNER, data, ephemeral=True), Set(OWNER, data), Set(CLAIM, data)


def registered(name: str) -> Create:
    """Somebody's registration."""
    return Create(f"/consumers/g/ids/{name}", b"{}", ephemeral=True)


WRITES: list[tuple[float, int, tuple[Write, ...]]] = [
    (1.0, A, (registered("a"), Create(CLAIM))),
    (1.1, A, claim("a-0")),
    (1.27, A, (Create(OFFSET, b"0"),)),
    (1.8, B, (registered("b"),)),
    (1.91, A, (Set(OFFSET, b"5"),)),
    (2.1, A, (Delete(OWNER),)),
    (2.2, B, claim("b-0")),
    (2.91, B, (Set(OFFSET, b"9"),)),
    (3.1, B, (Delete(OWNER),)),
]


def line(
    event: str, member: str, at: float, offset: int | None = None, generation: int = 0
) -> Line:
    """A line about the partition."""
    offsets = () if offset is None else (Offset("t", "0", offset),)
    return Line(event=event, member=member, at=at, offsets=offsets, generation=generation)


def records(member: str, at: float, offsets: Sequence[int]) -> Iterator[Line]:
    """Records, a twentieth of a second apart."""
    for number, offset in enumerate(offsets):
        yield line("record", member, at + number / 20, offset, 1)


def lines_of_b(*, since: float = 2.3, offsets: Sequence[int] = range(5, 9)) -> list[Line]:
    """What b tells."""
    return [
        line("claims", "b", since - 0.05, 2), line("begins", "b", since, offsets[0], 1),
        *records("b", since + 0.1, offsets), line("stores", "b", 2.9, 9), line("stops", "b", 3.0),
    ]  # fmt: skip


LINES_OF_A = [
    line("claims", "a", 1.15, 1), line("begins", "a", 1.2, NO_OFFSET, 1),
    line("resolves", "a", 1.25, 0), line("stores", "a", 1.26, 0), *records("a", 1.3, range(5)),
    line("stores", "a", 1.9, 5), line("stops", "a", 2.0),
]  # fmt: skip


def done(writes: Sequence[tuple[float, int, tuple[Write, ...]]]) -> list[Transaction]:
    """The log of these."""
    ordered = sorted(writes, key=lambda write: write[0])
    return [Transaction(zxid, *write) for zxid, write in enumerate(ordered, start=1)]


GOOD = Evidence(
    group="g", lines=[*LINES_OF_A, *lines_of_b()], printed=[], theirs=[], deaths={}, deeds=[],
    values={str(n): (("t", 0), n) for n in range(9)}, operator=99,
    produced=[(("t", 0), n) for n in range(9)], done=done(WRITES),
)  # fmt: skip


def with_writes(*more: tuple[float, int, tuple[Write, ...]]) -> Evidence:
    """More was written."""
    return replace(GOOD, done=done([*WRITES, *more]))


def told(found: Judged) -> set[str]:
    """What is owed, in names."""
    return {finding.promise for finding in found.owed}


def test_what_is_as_it_should_be_is_clean() -> None:
    """Every record once, one change of hands."""
    found = judge(GOOD)

    assert found.is_clean, str(found)
    assert (found.records, found.again, found.hands) == (9, 0, 1)


SPOILT: dict[str, Callable[[], Evidence]] = {
    "exclusive": lambda: replace(GOOD, lines=[*LINES_OF_A, *lines_of_b(since=1.85)]),
    "who_consumes_owns": lambda: with_writes((1.4, 99, (Delete(OWNER),))),
    "committed_offsets_never_go_back": lambda: with_writes((3.05, A, (Set(OFFSET, b"3"),))),
    "only_finished_is_committed": lambda: with_writes((2.95, B, (Set(OFFSET, b"20"),))),
    "who_begins_does_so_at_the_stored_offset": lambda: replace(
        GOOD, lines=[*LINES_OF_A, *lines_of_b(offsets=range(4, 9))]
    ),
    "nobody_is_past_the_unfinished": lambda: replace(
        GOOD, lines=[*LINES_OF_A, *lines_of_b(offsets=range(7, 9))]
    ),
    "only_the_latest_claim_stores": lambda: with_writes((2.5, A, (Set(OFFSET, b"6"),))),
    "owners_change_with_a_claim": lambda: replace(
        GOOD, done=done([w for w in WRITES if w[0] != 2.2] + [(2.2, B, claim("b-0")[:2])])
    ),
}
"""What is done to the evidence, by the promise that breaks."""


@pytest.mark.parametrize("promise", SPOILT)
def test_what_is_broken_is_named(promise: str) -> None:
    """Each promise can break, and is owed then."""
    found = judge(SPOILT[promise]())
    if promise == "who_consumes_owns":  # it was the operator's doing
        assert found.owes_nothing
        found = judge(replace(SPOILT[promise](), operator=0))

    assert promise in told(found)


def test_what_is_lost_or_out_of_order_is_named() -> None:
    """A record that nobody got, and one that was left out."""
    more = judge(replace(GOOD, produced=[*GOOD.produced, (("t", 0), 9)]))
    gap = judge(replace(GOOD, lines=[*LINES_OF_A, *lines_of_b(offsets=[5, 7, 8])]))

    assert more.lost == ["t-0 9"]
    assert gap.lost == ["t-0 6"]
    assert gap.disorder[0].startswith("7 after 5: b had t-0")


def test_what_one_of_theirs_did_is_named_and_not_owed() -> None:
    """A zombie's commit is its own; the same from one of ours is owed."""
    zombie = SPOILT["committed_offsets_never_go_back"]()
    theirs = judge(replace(zombie, theirs=["a"]))

    assert theirs.owes_nothing
    assert "committed_offsets_never_go_back" in theirs.theirs
    assert "a sets /consumers/g/offsets/t/0 to 3" in str(theirs)
    assert not judge(zombie).owes_nothing


def test_what_theirs_print_of_what_is_not_theirs_is_a_split_brain() -> None:
    """One of theirs had the partition, lost it, and prints on: each such record is evidence."""
    writes = [w for w in WRITES if w[1] == B]
    writes += [
        (1.0, A, (registered("g_a"), Create(CLAIM), Create(OFFSET, b"0"))),
        (1.1, A, (Create(OWNER, b"g_a-0", ephemeral=True),)),
        (1.91, A, (Set(OFFSET, b"5"),)),
    ]
    ended = [*done(writes)]
    ended.append(Transaction(99, 2.1, A, is_end=True))
    evidence = replace(
        GOOD, lines=lines_of_b(), theirs=["a"], done=sorted(ended, key=lambda t: t.at),
        printed=[
            *(Printed(1.3 + n / 20, "a", str(n)) for n in range(5)), Printed(2.8, "a", "5"),
        ],
    )  # fmt: skip
    found = judge(evidence)

    assert found.owes_nothing, str(found)
    assert found.strays == ["2.800 a gets 5 of t-0, which is b's"]
    assert "exclusive" in found.theirs
