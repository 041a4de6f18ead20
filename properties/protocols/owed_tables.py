"""The table of a protocol's page that says which sentence of the contract is kept, and as what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from herdspec.check.plans import FULL, plan_of
from herdspec.check.sentences import Column, judged
from herdspec.check.verify import verify
from herdspec.protocols.flaws import Flaw

DOCS = Path(__file__).parents[2] / "docs"


def owed_on(page: str) -> dict[str, list[str]]:
    """A page's table of sentences: the cells of each row, by its name."""
    _, _, after = (DOCS / page).read_text().partition("\n| sentence | as |")
    table, _, _ = after.partition("\n\n")
    found = re.findall(r"^\| ([^|-]+) \| [^|]* \| ([^|]*) \| ([^|]*) \|$", table, re.M)
    return {name: cells for name, *cells in found}


def declared_of(column: Column, drafted: Flaw) -> dict[str, str]:
    """The beginnings of a draft's cells, by what is declared of its failures."""
    begins = {}
    for sentence, of in column.cells.items():
        steps = [drafted.failures[row].steps for _, row in of.rows if row in drafted.failures]
        otherwise = "○" if of.rows else "no meaning"
        begins[sentence.name] = f"✗ {min(steps)} steps" if steps else otherwise
    return begins


def found_by_a_run(
    name: str, subjects: Sequence[str], columns: Sequence[Column]
) -> dict[str, list[str]]:
    """The cells that the checks of these subjects come to, sentence by sentence."""
    plan = plan_of(name, FULL)
    checks = [c for c in plan.checks if any(f" {s}:" in c.name for s in subjects)]
    findings = verify(replace(plan, checks=tuple(checks))).findings
    found = [judged(column, findings, plan.discharges) for column in columns]
    return {s.name: [of[s].text for of in found] for s in found[0]}
