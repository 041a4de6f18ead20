"""
Verdicts by group: each group of a run has its own, and missing lines make only theirs unknown.

Lines are missing where a process's numbers have a gap, where it does not begin with its first line,
where a message was received that nobody sent, and where somebody is named who should write a trace
and has none. What was traced whole up to there is judged; what comes then is unknown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from herdproof.conformance.traces.chained import UNNAMED, Chained, Process, process_of
from herdspec.check.conformance.conform import Outcome, Verdict

SHOWN = 3
"""The number of missing things that are named."""


@dataclass(frozen=True)
class Missing:
    """Lines that are not there."""

    why: str
    upto: int
    """The number of lines, in order, that are whole: what follows is not."""
    groups: frozenset[str] | None = None
    """Whose lines they may be; None: anybody's."""


def gaps(lines: Sequence[Any]) -> list[Missing]:
    """The lines that are missing of lines in order, by their numbers: a process begins with 1."""
    of = groups_of_nodes(lines)
    last: dict[tuple[str, str], tuple[int, int, int]] = {}
    found = []
    chains: Mapping[str, Chained] = {}
    for k, line in enumerate(lines):
        node, process = (line.role, line.node), process_of(line)
        before, upto, former = last.get(node, (0, 0, process))
        last[node] = line.sequence, k + 1, process
        goes_on = process == former and line.sequence > before
        if line.sequence not in (1, before + 1) or (process != former and line.sequence > 1):
            first = before + 1 if goes_on else 1
            through = f" to {line.sequence - 1}" if line.sequence - 1 > first else ""
            why = f"line{'s' if through else ''} {first}{through}"
            groups = of[node]
            if groups is None and goes_on and process != UNNAMED:
                chains = chains or _chains(lines)
                groups = _concerned(chains, (*node, process), first, line.sequence - 1)
            found.append(Missing(f"lines are missing: of {line.node}, {why}", upto, groups))
    return found


def _chains(lines: Sequence[Any]) -> Mapping[str, Chained]:
    """By group, what its lines say they come after, and those about all."""
    of: dict[str, list[Any]] = defaultdict(list)
    for line in lines:
        of[line.group].append(line)
    about_all = of.pop("", [])
    return {group: Chained([*own, *about_all]) for group, own in of.items()}


def _concerned(
    chains: Mapping[str, Chained], whose: Process, first: int, last: int
) -> frozenset[str] | None:
    """The groups that a process's missing lines may be about; None: one that is not there."""
    found = (group for group, chain in chains.items() if chain.latest(whose, last)[0] >= first)
    return frozenset(found) or None


def silent(lines: Sequence[Any], at: int) -> list[str]:
    """Whose trace may be cut: who was heard before a line, by its place, and not since then."""
    heard, since = ({(x.role, x.node) for x in some} for some in (lines[:at], lines[at:]))
    return [f"of {node}, what came after its last line" for _, node in sorted(heard - since)]


def groups_of_nodes(lines: Iterable[Any]) -> Mapping[tuple[str, str], frozenset[str] | None]:
    """
    By role and node, the one group that all of its lines name; None: there are others.

    A process's first line, which says that it is there, does not count.
    """
    of: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in lines:
        named = of[line.role, line.node]
        if line.sequence > 1 or line.group:
            named.add(line.group)
    return {
        node: frozenset(named) if len(named) == 1 and "" not in named else None
        for node, named in of.items()
    }


def groups_of(lines: Iterable[Any]) -> list[str]:
    """The groups that lines name."""
    return sorted({line.group for line in lines if line.group})


def by_group(
    groups: Sequence[str], lines: int, missing: Sequence[Missing],
    replay: Callable[[str, int], Outcome],
) -> Outcome:  # fmt: skip
    """
    The outcome of all groups, and each; `replay` judges a group's part of the first lines.

    Where something is missing, a group differs if it does so before; else it is unknown.
    """
    began = perf_counter()
    found: dict[str, Outcome] = {}
    for group in groups:
        gone = [m for m in missing if m.groups is None or group in m.groups]
        outcome = replay(group, min([m.upto for m in gone], default=lines))
        if gone and outcome.verdict is not Verdict.DIFFERS:
            first = sorted(gone, key=lambda m: m.upto)[:SHOWN]
            more = f" (and {len(gone) - SHOWN} more)" if len(gone) > SHOWN else ""
            reason = "; ".join(dict.fromkeys(m.why for m in first)) + more
            outcome = replace(outcome, verdict=Verdict.UNKNOWN, reason=reason, mismatch=None)
        found[group] = replace(outcome, lines=lines)
    everything = _together(found, lines)
    return replace(everything, seconds=perf_counter() - began)


_WORST = (Verdict.DIFFERS, Verdict.UNKNOWN, Verdict.CONFORMS)


def _together(found: Mapping[str, Outcome], lines: int) -> Outcome:
    """The outcome of groups together: the worst of them, and of these the first."""
    if not found:
        return Outcome(Verdict.CONFORMS, lines, lines, {}, frozenset(), 1, 0.0)
    worst = min(found.values(), key=lambda o: (_WORST.index(o.verdict), o.matched))
    named: Counter[str] = Counter()
    for outcome in found.values():
        named += Counter(outcome.named)
    return replace(
        worst,
        named=named,
        inferred=frozenset[str]().union(*(o.inferred for o in found.values())),
        largest=max(o.largest for o in found.values()),
        steps=sum(o.steps for o in found.values()),
        groups=dict(found),
        unshown=frozenset.intersection(*(o.unshown for o in found.values())),
        stricter=next((o.stricter for o in (worst, *found.values()) if o.stricter), None),
    )
