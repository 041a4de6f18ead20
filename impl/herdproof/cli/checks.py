"""
What `verify` checks of the implementation, protocol by protocol.

Each entry of `IMPLEMENTATION` makes one `Check` for the column that it is told. A check yields
findings: `conforms` makes one that passed, `differs` one that did not. Where one cannot be carried
out (a `HerdError`: no Java, say) its verdict is "unknown", and `verify` ends with 3.
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec.check.verdict import Finding, Mark, counted
from herdspec.check.verify import Check, Result, Tell


def conforms(subject: str, row: str, sentence: str, bounds: str) -> Finding:
    """The implementation was run within these bounds (say what, and how much) and conformed."""
    return Finding(
        subject=subject, row=row, kind="check", mark=Mark.CONFORMS, bounds=bounds,
        sentence=sentence,
    )  # fmt: skip


def differs(subject: str, row: str, sentence: str, bounds: str, story: str) -> Finding:
    """The implementation did what its spec does not allow; the story's lines say what."""
    lines = tuple(story.splitlines())
    return Finding(
        subject=subject, row=row, kind="check", mark=Mark.FAILS, bounds=bounds,
        sentence=sentence, note="differs", story=lines,
    )  # fmt: skip


# ── Election ────────────────────────────────────────────────────────────────────────────────

EDGES_BROKERS, EDGES_FAULTS = 2, 2


def edges(subject: str) -> Check:
    """Every step of the explored graph, taken by the cores on the simulated ZooKeeper."""
    row = "the cores take every step as specified"
    sentence = "In every reachable state, each step leads the cores where the spec says."

    def run(tell: Tell) -> Result:
        from herdproof.link.cover import cover

        tell("on the simulated ZooKeeper", None)
        coverage = cover(EDGES_BROKERS, EDGES_FAULTS)
        bounds = f"{counted(coverage.edges, 'step')} from {counted(coverage.states, 'state')}"
        measured = f"{bounds}, {coverage.edges / coverage.seconds:,.0f} steps/s"
        if coverage.mismatch is None:
            return Result((conforms(subject, row, sentence, bounds),), measured)
        story = coverage.mismatch.story
        return Result((differs(subject, row, sentence, bounds, story),), measured)

    size = f"{counted(EDGES_BROKERS, 'broker')}, {counted(EDGES_FAULTS, 'fault')}"
    return Check(f"cover every step on the simulated ZooKeeper: {size}", run)


IMPLEMENTATION: dict[str, tuple[Callable[[str], Check], ...]] = {"election": (edges,)}
"""What is checked of each protocol's implementation, in this order."""
