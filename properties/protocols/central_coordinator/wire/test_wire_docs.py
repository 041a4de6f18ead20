"""docs/wire.md says what the codecs do: its tables are compared with theirs, row by row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from herdproof.consuming.subscription import (
    INTERNAL_TOPICS,
    MAX_REGEX,
    MAX_STREAMS,
    MAX_UNICODE_CLASSES,
    REGEX_BYTES,
)
from herdproof.protocols.central_coordinator.wire import legacy, version1
from herdproof.protocols.central_coordinator.wire.exchanges import DIRECTIONS, TYPE_IDS
from herdproof.protocols.central_coordinator.wire.framing import MAX_FRAME_BYTES
from herdproof.protocols.central_coordinator.wire.layout import Struct, StructField
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode

PAGE = (Path(__file__).parents[4] / "docs" / "wire.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """What stands under a heading of the page."""
    found = re.search(rf"^##+ {title}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/wire.md has no section {title!r}"
    return found[1]


def table(title: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    rows = [line.strip().strip("|") for line in section(title).splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in row.split(" | ")] for row in rows[2:]]


def body_rows(bodies: dict[type[Any], Struct[Any]]) -> list[list[str]]:
    """The rows of a table of bodies, as the page should have them."""
    return [
        [f"`{kind.__name__}`", str(TYPE_IDS[kind]), body.label or "nothing"]
        for kind, body in sorted(
            bodies.items(), key=lambda one: (TYPE_IDS[one[0]], DIRECTIONS[one[0]])
        )
    ]


def header_rows(fields: tuple[StructField, ...]) -> list[list[str]]:
    """The first two cells of a header's rows."""
    return [[f"`{field.name}`", field.kind.label] for field in fields]


def test_the_header_of_a_request_is_documented() -> None:
    """The page's table of a request's header is the codec's."""
    assert [row[:2] for row in table("A request's header")] == header_rows(
        (*version1.HEADER, *version1.AFTER_OF_A_REQUEST)
    )


def test_the_header_of_a_response_is_documented() -> None:
    """The page's table of a response's header is the codec's."""
    assert [row[:2] for row in table("A response's header")] == header_rows(
        (*version1.HEADER, *version1.AFTER_OF_A_RESPONSE)
    )


def test_the_bodies_of_version_1_are_documented() -> None:
    """The page's table of bodies, with their type ids, is the codec's."""
    assert table("Bodies of version 1") == body_rows(version1.BODIES)


@pytest.mark.parametrize("version", version1.ADDED)
def test_the_bodies_of_later_versions_are_documented(version: int) -> None:
    """The page's tables of what a version says more than the others are the codec's."""
    assert table(f"Bodies of version {version}") == body_rows(
        {of: Struct(of, fields[-1:]) for of, fields in version1.ADDED[version].items()}
    )


def test_the_bodies_of_the_legacy_form_are_documented() -> None:
    """The page's table of the legacy form's bodies is that codec's."""
    assert table("Bodies of the legacy form") == body_rows(legacy.BODIES)


def test_the_error_codes_are_documented() -> None:
    """The page has every error code with its number, and no other."""
    assert [row[:2] for row in table("Error codes")] == [
        [str(code.value), f"`{code.name}`"] for code in ErrorCode
    ]


def test_the_limits_are_documented() -> None:
    """The limits that the page tells are the code's."""
    subscriptions = " ".join(section("What a consumer subscribes to").split())

    assert f"{MAX_FRAME_BYTES:,} bytes" in " ".join(section("Frames").split())
    for limit in (
        f"1 to {MAX_STREAMS:,}",
        f"{MAX_REGEX:,} characters",
        f"{REGEX_BYTES:,} bytes",
        f"{MAX_UNICODE_CLASSES} Unicode classes",
        *(f"`{topic}`" for topic in INTERNAL_TOPICS),
    ):
        assert limit in subscriptions
