"""
Flaws of cooperative members: each is cooperative rebalancing with one mistake.

The first is Kafka's own coordinator's. What must come of each is declared, as in the protocol's
`flaws.py`.

Source: apache/kafka, KIP-429 and pull request 9656.
"""

from __future__ import annotations

from functools import partial

from herdspec.protocols.flaws import Failure
from herdspec.protocols.group_protocol.flaws import flaw_of_form
from herdspec.protocols.group_protocol.mistakes import only_the_generation
from herdspec.protocols.group_protocol.variants.cooperative.properties import COOPERATIVE_HELD
from herdspec.protocols.group_protocol.variants.cooperative.spec import (
    CooperativeGroup,
    Member,
)


def nothing_new(self: CooperativeGroup, m: Member) -> bool:
    """Who asks again is told its generation once more, whatever it has given up since."""
    return self.belongs_already(m)


_flaw = partial(flaw_of_form, form="cooperative", spec=COOPERATIVE_HELD, faults=0)

COOPERATIVE_FLAWS = {
    "revoked_commits": _flaw(
        {"exclusive_fenced": Failure(54, "handle_offset_commit")},
        "revoked_commits",
        faults=1,
        accepts_offset=only_the_generation,
    ),
    "rejoin_unnoticed": _flaw(
        {"settles": Failure(53, "heartbeat")}, "rejoin_unnoticed", answers_at_once=nothing_new
    ),
}
"""Flaws that cooperative rebalancing takes care of."""
