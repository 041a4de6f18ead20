"""
Traces in which something changes while owners are being written, or a message is read very late.

What was decided stands until it is answered, in however many transactions it is sent, and however
often. Seeds of campaigns whose right code was once said to differ are pinned.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from herdproof.pipeline.campaign.runs import Asked
from herdproof.protocols.central_coordinator.campaign import Central
from herdproof.protocols.central_coordinator.simulated.traced import traced
from herdproof.protocols.central_coordinator.steps import LEFT
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.traces.trace_map import conform_lines
from herdproof.protocols.central_coordinator.traces.writes import sent_again
from herdspec.check.conformance.conform import Outcome, Verdict
from properties.protocols.central_coordinator.held.traces.test_central_conform import run, shown


@pytest.mark.parametrize(
    ("seed", "mix"),
    [
        pytest.param(52_195, "larger/stormy", id="a member leaves amid a write in parts"),
        pytest.param(52_331, "alone/stormy", id="another one"),
        pytest.param(77_178, "usual/brokers", id="to resume is asked, and heard after the lease"),
    ],
)
def test_what_a_campaign_found_to_differ_conforms(seed: int, mix: str) -> None:
    """The code was right; where it told of its write, and whom the map took for gone, was not."""
    config = Central().config(Asked("central_coordinator", 0, seed, mix))
    outcome = conform_lines(traced(seed, config).lines)

    assert outcome.verdict is Verdict.CONFORMS, shown(outcome)


# ── A write that is refused, and sent again as it was ───────────────────────────────────────


def until_sent_again(seed: int) -> tuple[list[CentralStep], CentralStep, CentralStep]:
    """The lines up to the answer of a write that was sent again; the refusal, and the second."""
    lines = run(seed).lines
    again = sent_again(lines)
    refused = next(line for line in lines if id(line) in again)
    second = again[id(refused)]
    end = next(
        k for k, line in enumerate(lines)
        if line.action == "answered" and (line.node, line.number) == (second.node, second.number)
    )  # fmt: skip
    assert lines[end].outcome == "done"
    return lines[: end + 1], refused, second


def with_a_leave(lines: Sequence[CentralStep], before: CentralStep, of: str) -> list[CentralStep]:
    """The lines, where a member has left before one of them; its own lines end there."""
    accepted = next(x for x in lines if x.action == "handle_register" and x.member == of)
    about = {"consumer": accepted.consumer, "connection": accepted.connection}
    at = next(k for k, line in enumerate(lines) if line is before)
    own = [x for x in lines[:at] if (x.consumer, x.role) == (accepted.consumer, "consumer")][-1]
    time_ns = before.time_ns
    gone = replace(
        own, action="on_lost_connection", sequence=own.sequence + 1, time_ns=time_ns,
        partitions=(), until_ns=time_ns,
    )  # fmt: skip
    closed = replace(
        accepted, action="handle_closed", sequence=before.sequence, time_ns=time_ns, outcome=LEFT,
        **about,
    )  # fmt: skip
    later = [
        replace(x, sequence=x.sequence + 1) if (x.node, x.role) == (before.node, "coordinator")
        else x
        for x in lines[at:] if x.node != own.node
    ]  # fmt: skip
    return [*lines[:at], gone, closed, *later]


def replayed(lines: Sequence[CentralStep]) -> Outcome:
    """A replay that is at its end."""
    outcome = conform_lines(lines)
    assert outcome.matched == len(lines) or outcome.mismatch is not None
    return outcome


def test_who_has_left_meanwhile_is_named_once_more() -> None:
    """It left while the write was on its way, which was refused, and sent again at once."""
    lines, refused, second = until_sent_again(1)
    (_, _, leaver), *_ = second.owners

    outcome = replayed(with_a_leave(lines, refused, leaver))

    assert outcome.verdict is Verdict.CONFORMS, shown(outcome)
    assert "refuse" not in outcome.covered  # it is still on its way, for the spec


def test_who_has_left_before_is_not_named_by_another_write() -> None:
    """Owners that are decided on anew are of those who live: others differ."""
    lines, refused, second = until_sent_again(1)
    (_, _, leaver), *_ = second.owners
    at = next(k for k, line in enumerate(lines) if line is second)
    other = replace(second, owners=second.owners[:-1])
    changed = [*lines[:at], other, *lines[at + 1 :]]

    outcome = replayed(with_a_leave(changed, refused, leaver))

    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.mismatch is not None
    assert "write_owners" in "\n".join(outcome.mismatch.lines)


def test_a_refusal_is_one_where_the_same_may_be_decided_again() -> None:
    """Nothing has changed: ZooKeeper refuses in the spec, too."""
    lines, _, _ = until_sent_again(1)

    outcome = replayed(lines)

    assert outcome.verdict is Verdict.CONFORMS, shown(outcome)
    assert "refuse" in outcome.covered
