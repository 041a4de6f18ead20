"""
Traces of self-rebalancing consumers for the audit. Format: `docs/self_rebalancing_trace.md`.

What lines say of the contract's fields is in `judged/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from herdproof.pipeline.audit.map_trace import MapAuditor
from herdproof.pipeline.judging.group import GroupJudging
from herdproof.pipeline.judging.judging import Judging
from herdproof.protocols.self_rebalancing.judged.eyes import FENCED, OF_THE_LEASE
from herdproof.protocols.self_rebalancing.judged.judge import WATCHES, ConnectorJudge
from herdspec.check.observation.watches import JUDGED
from herdspec.protocols.contract.properties import CONTRACT
from herdspec.protocols.self_rebalancing.contract import (
    CLAIMED,
    NOT_MODELLED,
    SHOWN_BY_THE_PROTOCOL,
    WITHOUT_MEANING,
)

OWED = FENCED | OF_THE_LEASE | WITHOUT_MEANING | NOT_MODELLED | SHOWN_BY_THE_PROTOCOL
"""The sentences of the contract, whatever becomes of them without a coordinator."""
NO_COORDINATOR = "it speaks of a coordinator, or of the group's generation, and there is none"
IN_THE_END = "whether the group is stable, nobody knows; no trace shows what is left undone"
NOT_TOLD = "no line tells what an application has finished, nor what a reset finds"


class ConnectorAuditor(MapAuditor):
    """What the pipeline knows of self-rebalancing consumers' traces."""

    grouped = True
    options: ClassVar[Mapping[str, Any]] = {"invariants": False, "whole": False}
    """A state that was replayed in a proved spec breaks no promise; what is missing is known."""

    @property
    def sentences(self) -> Mapping[str, str]:
        """What the contract promises, with a coordinator or without one."""
        every = (*CLAIMED.properties, *CONTRACT.properties)
        of = [p for p in every if p.name in OWED and not p.lemma]
        return {p.name: p.sentence for p in of if p.expectation in JUDGED or p.goal is not None}

    @property
    def undecided(self) -> Mapping[str, str]:
        """What has no meaning without a coordinator, and what no line tells."""
        judged = {promise.name for promise in WATCHES.promises}
        return {
            name: NO_COORDINATOR if name in WITHOUT_MEANING
            else IN_THE_END if name in SHOWN_BY_THE_PROTOCOL else NOT_TOLD
            for name in self.sentences if name not in judged
        }  # fmt: skip

    def judging(self, run: str, group: str) -> Judging:
        """Who judges a group's lines: by the contract without a coordinator."""
        return GroupJudging(run, group, self.name, ConnectorJudge(), self.undecided)
