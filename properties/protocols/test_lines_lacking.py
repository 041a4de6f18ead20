"""A line without an argument that it needs is malformed, and nobody falls over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from herdproof.conformance.traces.line import (
    SCHEMA,
    Formats,
    Predecessor,
    TraceError,
    TraceLine,
    read_line,
)
from herdproof.pipeline.audit.protocols import Malformed, auditor
from herdproof.protocols.group_protocol.campaign import MIXES
from herdproof.protocols.group_protocol.simulated.traced import traced_groups
from herdproof.protocols.group_protocol.traces import lines as group_lines
from herdproof.protocols.self_rebalancing.simulated.traced import traced
from herdproof.protocols.self_rebalancing.traces import lines as connector_lines

LINES: Mapping[str, tuple[Callable[[int], list[TraceLine]], Mapping[str, Any], Formats]] = {
    "group_protocol": (traced_groups, group_lines.NEEDED, group_lines.FORMATS),
    "self_rebalancing": (traced, connector_lines.NEEDED, connector_lines.FORMATS),
}
BY_NOBODY_SIMULATED = {"(answered)", "refused"}
"""Lines of Kafka's answers, and of clients."""


def without(arguments: dict[str, object], name: str) -> dict[str, object]:
    """The arguments but one."""
    return {known: value for known, value in arguments.items() if known != name}


@pytest.mark.parametrize("protocol", LINES)
def test_each_argument_that_is_needed_is_there_and_named_where_it_is_not(protocol: str) -> None:
    """By whoever replays, and by the audit; and where a line that is repeated lacks it."""
    run, needed, formats = LINES[protocol]
    tried: set[tuple[str, str]] = set()
    for line in (line for seed in range(6) for line in run(seed)):
        read_line(line.written(), formats=formats)
        for name in needed.get(line.action, ()):
            if (line.action, name) in tried:
                continue
            tried.add((line.action, name))
            lacking = replace(line, arguments=without(line.arguments, name), before=None)
            repeated = Predecessor(action=line.action, arguments=lacking.arguments)
            after = TraceLine(
                schema=SCHEMA, protocol=protocol, run="r", node="n", sequence=2, time_ns=2,
                action="step", previous=1, before=repeated,
            )  # fmt: skip
            for text in (lacking.written(), after.written()):
                with pytest.raises(TraceError, match=f"`{line.action}` has no argument `{name}`"):
                    read_line(text, formats=formats)
                with pytest.raises(Malformed, match=f"has no argument `{name}`"):
                    auditor(protocol).read(text, "t:1")

    assert {action for action, _ in tried} == {*needed} - BY_NOBODY_SIMULATED


@pytest.mark.parametrize("mix", MIXES)
def test_no_line_that_is_written_lacks_anything(mix: str) -> None:
    """Of members of all kinds, and of our clients."""
    for line in (
        line for seed in range(2) for line in traced_groups(seed, config=MIXES[mix], clients=True)
    ):
        read_line(line.written(), formats=group_lines.FORMATS)


@pytest.mark.parametrize(
    ("arguments", "lacks"),
    [
        ({"instance": "till"}, "member"), ({"instance": "till", "member": "m"}, ""),
        ({"number": 3, "member": "m"}, "leader"), ({"number": 3, "leader": "m"}, ""),
    ],
)  # fmt: skip
def test_a_static_members_next_life_is_told_in_two_lines(
    arguments: dict[str, Any], lacks: str
) -> None:
    """Who comes back; and that it is to be stored, with who leads."""
    assert group_lines.GroupTraceLine.lacks("replace_member", arguments) == lacks
