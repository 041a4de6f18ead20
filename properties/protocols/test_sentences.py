"""One list of sentences: what the audit calls by older names, and what shares are even."""

from __future__ import annotations

import pytest

from herdproof.consuming.assignment import range_assign, shares_are_even, uneven_share
from herdproof.protocols.sentences import OLD_NAMES
from herdspec.check.protocol import names, protocol
from herdspec.protocols.central_coordinator.properties import OF_ITS_OWN
from herdspec.protocols.contract.properties import PROMISES, settles
from herdspec.protocols.contract.sentences import SENTENCES

OF_THE_CONTRACT = {p.name for p in (*PROMISES, settles)}
OF_THE_PROTOCOL = {p.name for p in OF_ITS_OWN}


def test_every_older_name_is_said_by_properties() -> None:
    """No older name stands for nothing, and no property of the contract is without one."""
    said = {name for names in OLD_NAMES.values() for name in names}

    assert all(OLD_NAMES.values())
    assert said == OF_THE_CONTRACT | OF_THE_PROTOCOL | {shares_are_even.__name__}


def test_each_promise_is_in_one_sentence_of_the_table() -> None:
    """No promise of the contract is in no row of the table at the end of `verify`, or in two."""
    said = [name for sentence in SENTENCES for name in sentence.properties]

    assert len(said) == len({*said})
    assert {*said} == OF_THE_CONTRACT


@pytest.mark.parametrize("name", [n for n in names() if protocol(n).columns()])
def test_each_column_speaks_of_every_sentence(name: str) -> None:
    """A protocol says of each sentence what shows it, or that it has no meaning."""
    for column in protocol(name).columns():
        assert [*column.cells] == [*SENTENCES]


# ── Even shares ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("partitions", range(8))
@pytest.mark.parametrize("threads", [(1,), (2, 1), (1, 1, 3)])
def test_what_a_range_assignment_gives_is_even(partitions: int, threads: tuple[int, ...]) -> None:
    """Whatever it lays out over threads, each member has what its threads may have."""
    of = dict(enumerate(threads))
    plan = range_assign(range(partitions), [m for m, many in of.items() for _ in range(many)])

    assert shares_are_even(partitions, {m: [*plan.values()].count(m) for m in of}, of)


def test_who_has_too_much_or_too_little_is_named() -> None:
    """Of five partitions for four threads, two threads have two to four; not one, nor five."""
    threads = {"a": 2, "b": 2}
    assert uneven_share(5, {"a": 5, "b": 0}, threads) == "a"
    assert uneven_share(5, {"a": 4, "b": 1}, threads) == "b"
    assert uneven_share(4, {"a": 2, "b": 1}, threads) == "b"
    assert uneven_share(4, {"a": 2}, threads) == "b"
    assert uneven_share(5, {"a": 2, "b": 3}, threads) is None


def test_where_nobody_wants_anything_shares_are_even() -> None:
    """There is no thread to be owed anything."""
    assert shares_are_even(3, {}, {})
