"""Text files in parts: together these have each line once, with its number."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdproof.pipeline.spark import text_files
from herdproof.pipeline.spark.sources import NoSource
from herdproof.pipeline.spark.text_files import MARK_OF_ORDER, lines_of, parts_of, records_of


def records(path: Path) -> list[tuple[str, int, bytes]]:
    """The records of a file, part by part."""
    parts, count = parts_of([str(path)])
    found = [record for part in parts for record in records_of(part)]
    assert count == len(found)
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"\r"))),
    size=st.integers(1, 24), has_mark=st.booleans(), is_ended=st.booleans(),
)  # fmt: skip
def test_parts_have_each_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, lines: list[bytes], size: int,
    has_mark: bool, is_ended: bool,
) -> None:  # fmt: skip
    """Whatever the size of a part; with a byte order mark, and without an end of the last line."""
    monkeypatch.setattr(text_files, "PART_BYTES", size)
    told = b"\n".join(lines) + (b"\n" if is_ended and lines else b"")
    path = tmp_path / "some.ndjson"
    path.write_bytes((MARK_OF_ORDER if has_mark else b"") + told)

    found = records(path)

    assert [(name, number) for name, number, _ in found] == [
        (str(path), k) for k in range(1, len(found) + 1)
    ]
    assert [line for *_, line in found] == [*lines_of(str(path))]
    left = lines if is_ended or not lines or lines[-1] else lines[:-1]
    if left and not left[0].startswith(MARK_OF_ORDER):
        assert [line for *_, line in found] == left


def test_what_is_packed_is_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for the middle of it is to unpack all that is before."""
    monkeypatch.setattr(text_files, "PART_BYTES", 4)
    path = tmp_path / "some.ndjson.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\nthree\n"))

    parts, _ = parts_of([str(path)])

    assert len(parts) == 1
    assert [line for *_, line in records(path)] == [b"one", b"two", b"three"]


def test_several_files_are_counted_together(tmp_path: Path) -> None:
    """And an empty one has no part."""
    for name, text in (("a", b"1\n2\n"), ("b", b""), ("c", b"3")):
        (tmp_path / name).write_bytes(text)

    parts, count = parts_of([str(tmp_path / name) for name in "abc"])

    assert (len(parts), count) == (2, 3)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    """In a sentence, before any worker has begun."""
    with pytest.raises(NoSource, match="cannot be read"):
        parts_of([str(tmp_path / "nothing")])
