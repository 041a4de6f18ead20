"""
Traces of self-rebalancing consumers for the audit. Format: `docs/self_rebalancing_trace.md`.

What lines say of the contract's fields is in `judged/`.
"""

from __future__ import annotations

from typing import ClassVar

from herdproof.pipeline.audit.map_trace import JudgedAuditor
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
PROMISED = {
    p.name: p.sentence
    for p in (*CLAIMED.properties, *CONTRACT.properties)
    if p.name in OWED and not p.lemma and (p.expectation in JUDGED or p.goal is not None)
}
"""The sentences of the contract, with a coordinator or without one."""


class ConnectorAuditor(JudgedAuditor):
    """Knows what is promised of self-rebalancing consumers, and judges a group's lines by it."""

    grouped = True
    judge = ConnectorJudge
    promised = PROMISED
    untold: ClassVar = {
        name: NO_COORDINATOR if name in WITHOUT_MEANING
        else IN_THE_END if name in SHOWN_BY_THE_PROTOCOL else NOT_TOLD
        for name in PROMISED if name not in {promise.name for promise in WATCHES.promises}
    }  # fmt: skip
