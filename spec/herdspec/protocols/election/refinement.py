"""
The verified election, seen as its contract.

Every step of the election is, through this map, the step of the contract that is named for it, or
no step of the contract at all.
"""

from __future__ import annotations

from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.language.surface import Nat
from herdspec.protocols.election.contract import CONTRACT
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.spec import Answer, Broker, Call, Election, View


def epoch(s: Election) -> Nat:
    """The version of the epoch node."""
    return s.epoch


def elected(s: Election) -> Broker | None:
    """Who won it."""
    return s.elected


def won(s: Election, b: Broker) -> Nat:
    """The epoch of the broker's own node, as it stands, is answered, or is still shown to it."""
    if s.answer[b] == Answer.CREATED or (s.answer[b] == Answer.MINE and s.call[b] == Call.RECALL):
        return s.number[b]
    if s.is_mine(b):
        return s.epoch
    if s.behind[b] and s.connected[b] and s.view[b] == View.MINE:
        return s.view_epoch[b]
    return 0


def token(s: Election, b: Broker) -> Nat:
    """The last epoch that the broker led in."""
    return s.token[b]


def leads(s: Election, b: Broker) -> bool:
    """The broker believes that it leads."""
    return s.leads[b]


def stale_write_accepted(s: Election) -> bool:
    """A write of somebody else was accepted."""
    return s.stale_write_accepted


REFINEMENT = Refinement(
    concrete=ELECTION,
    abstract=CONTRACT,
    fields=(epoch, elected, won, token, leads, stale_write_accepted),
    actions={
        "serve_create": ("elect", STUTTER),
        "swallow_create": ("elect",),
        "handle_create": ("take_up", STUTTER),
        "handle_recall": ("take_up", STUTTER),
        "handle_look": ("step_down", STUTTER),
        "handle_suspended": ("step_down", STUTTER),
        "resign": ("step_down", STUTTER),
        "serve_delete": ("give_up", STUTTER),
        "swallow_delete": ("give_up",),
        "expire": ("give_up", STUTTER),
        "expire_told": ("give_up", STUTTER),
        "handle_reconnected": ("give_up", STUTTER),
        "cut": ("give_up", STUTTER),
        "catch_up": ("give_up", STUTTER),
        "write": ("write", STUTTER),
        "restart": ("restart",),
    },
)
