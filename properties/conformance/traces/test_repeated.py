"""Lines that repeat the one before: what is lost is found again as it was, and nothing else is."""

import io
from itertools import count
from random import Random

import pytest
from msgspec.structs import replace

from herdproof.conformance.traces import repeated
from herdproof.conformance.traces.line import TraceLine, read_texts
from herdproof.conformance.traces.ordering import ordered
from herdproof.conformance.traces.repeated import disputes, with_repeated
from herdproof.conformance.traces.tracer import Tracer
from herdproof.pipeline.audit.numbers import Numbers
from herdproof.pipeline.judging.gaps import MissingNumbers, gaps_of


def traced(groups: str, *, repeats: bool = True) -> list[TraceLine]:
    """A process's lines about these groups, one after the other; `-` is about all of them."""
    stream, times = io.StringIO(), count(1_000)
    tracer = Tracer("p", "n", stream, run="r", clock=lambda: next(times), repeats=repeats)
    for number, group in enumerate(groups):
        tracer.step("deed", group=group.strip("-"), arguments={"of": number}, seen={"x": number})
    return read_texts(stream.getvalue().splitlines(), "n.ndjson")


def plain(line: TraceLine) -> tuple[object, ...]:
    """The content of a line, wherever it stands."""
    return (
        line.role, line.node, line.group, line.sequence, line.time_ns, line.action,
        line.arguments, line.seen, line.previous,
    )  # fmt: skip


def test_each_line_that_is_lost_is_found_again_as_it_was() -> None:
    """But for one that lines of other groups follow, up to one about all: that repeats these."""
    lines = traced("ab-aab-ba-b")
    unrepeated = {2, 6, 9, 12}
    for gone in lines:
        left = [line for line in lines if line is not gone]
        again = sorted(with_repeated(left), key=lambda line: line.sequence)
        expected = left if gone.sequence in unrepeated else lines
        assert [*map(plain, again)] == [*map(plain, expected)], gone.sequence
    assert with_repeated(lines) is lines


def test_who_does_not_repeat_writes_lines_as_before() -> None:
    """Nor does a process's first line: what another one has told is not its own."""
    assert "before" not in "".join(line.written() for line in traced("ab", repeats=False))
    assert traced("a")[0].before is None


def test_of_another_group_nothing_is_put_among_a_groups_lines() -> None:
    """A line about all groups repeats the one before it, whichever group that is of."""
    lines = [line for line in traced("aba-") if line.group in ("", "b")]

    assert with_repeated(lines) is lines


def test_two_that_are_lost_one_after_the_other_are_a_gap() -> None:
    """Only the latter is known; that the previous is missing, its number tells."""
    lines = traced("aaaaa")
    found = ordered(with_repeated([*lines[:2], *lines[4:]]))

    assert [line.sequence for line in found.lines] == [1, 2, 4, 5, 6]
    assert [*found.gaps.values()] == ["of n, lines 3 to 3"]


def test_who_forgets_a_group_does_not_say_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process remembers the last lines of some groups; numbers are left for the others."""
    monkeypatch.setattr(repeated, "GROUPS", 2)

    assert [line.previous for line in traced("abcaca")] == [0, 1, 1, 1, 0, 4, 5]


def missing(lines: list[TraceLine], gone: set[int]) -> tuple[list[TraceLine], list[MissingNumbers]]:
    """Lines without those of these numbers, and which are known to be missing."""
    left = [line for line in lines if line.sequence not in gone]
    numbers = Numbers()
    for line in left:
        numbers.note(line.role, line.node, line.sequence, line.time_ns)
    return left, numbers.gaps()


def test_numbers_of_other_groups_are_no_gap_where_lines_tell_what_came_before() -> None:
    """Whatever is gone of others; one of its own that is gone for good is a gap of it alone."""
    for seed in range(60):
        chance = Random(seed)
        lines = traced("".join(chance.choices("ab-", weights=(4, 4, 1), k=30)) + "ab")
        left, gaps = missing(lines, {*chance.sample(range(2, 31), 3)})
        for group in "ab":
            own = [line for line in left if line.group in ("", group)]
            whole = [line for line in lines if line.group in ("", group)]
            found = ordered(with_repeated(own))
            known = {line.sequence for line in found.lines}
            lost = [line for line in whole if line.sequence not in known]
            there = gaps_of(found, alone=False, missing=gaps)
            for line in lost:
                assert any(
                    all(x.sequence < line.sequence for x in found.lines[: gap.begin])
                    and all(x.sequence > line.sequence for x in found.lines[gap.end :])
                    for gap in there
                ), (seed, group, line.sequence)
            if not any(x.group == "" for x in whole[1:]):
                assert bool(there) == bool(lost), (seed, group)


# ── Lines that contradict each other ────────────────────────────────────────────────────────


def disputed(lines: list[TraceLine]) -> list[tuple[str, str]]:
    """The places of lines that others contradict, and why."""
    there = ordered(with_repeated(lines)).lines
    return [(found.line.place, found.why) for found in disputes(there)]


def test_lines_as_they_were_written_contradict_nothing() -> None:
    """Be they all there, or not."""
    for seed in range(20):
        chance = Random(seed)
        lines = traced("".join(chance.choices("ab-", weights=(4, 4, 1), k=30)))
        left, _ = missing(lines, {*chance.sample(range(1, 31), chance.randrange(5))})
        assert disputed(left) == []


def test_a_line_that_was_altered_is_named_with_the_next_one_and_what_is_another() -> None:
    """By their places."""
    lines = traced("abab")
    for changes, told in (
        ({"action": "other"}, "`action`"),
        ({"seen": {"x": 9}, "arguments": {}}, "`arguments`, `seen`"),
        ({"time_ns": lines[1].time_ns + 7}, "time"),
    ):
        assert disputed([replace(x, **changes) if x is lines[1] else x for x in lines]) == [(
            "n.ndjson, line 2",
            "n.ndjson, line 2 and n.ndjson, line 4 contradict each other: the latter repeats line 2"
            f" of n with another {told}",
        )]  # fmt: skip


def test_a_line_that_the_next_one_does_not_know_of_is_named() -> None:
    """It was another group's; neither does it know of the one that is before it there."""
    lines = traced("abab")

    found = disputed([replace(x, group="a") if x.sequence == 3 else x for x in lines])

    assert [place for place, _ in found] == ["n.ndjson, line 2", "n.ndjson, line 3"]
    assert found[1][1] == (
        "n.ndjson, line 3 and n.ndjson, line 4 contradict each other: the latter says that line 2"
        " of n was the one before it, the former is line 3"
    )
