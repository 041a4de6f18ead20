"""
What goes wrong with cooperative members: each is cooperative rebalancing with one mistake.

The first is Kafka's own coordinator; the others say what the leader and the coordinator take care
of. What must come of each is declared, as in `flaws.py`.

Source: apache/kafka, KIP-429 and pull request 9656.
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec.protocols.flaws import Failure, Flaw
from herdspec.protocols.group_protocol.mistakes import only_the_generation
from herdspec.protocols.group_protocol.variants.cooperative import (
    CooperativeGroup,
    Member,
    Partition,
)
from herdspec.protocols.group_protocol.variants.cooperative_properties import COOPERATIVE_HELD


def nothing_new(self: CooperativeGroup, m: Member) -> bool:
    """Who asks again is told its generation once more, whatever it has given up since."""
    return self.belongs_already(m)


def give_at_once(self: CooperativeGroup, p: Partition, heir: Member | None) -> None:
    """A partition is given to its heir, as if everybody had given everything up."""
    self.owner[p] = heir


def _flaw(
    failures: dict[str, Failure], name: str, *, faults: int = 0, within: bool = False,
    **functions: Callable[..., object],
) -> Flaw:  # fmt: skip
    variant = "".join(word.title() for word in name.split("_"))
    sizes = {"Broker": 1, "Member": 2, "Partition": 1}
    made = COOPERATIVE_HELD.replace(variant, **functions)
    return Flaw(made, frozenset({name}), failures, faults, sizes, bound=8, within=within)


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
    "given_at_once": _flaw(
        {
            "exclusive": Failure(39, "update_fetch_positions"),
            "who_consumes_owns": Failure(34, "store_assignment"),
            "what_is_withheld_is_its_last_owners": Failure(36, "answer_syncs"),
        },
        "given_at_once",
        within=True,  # what is taken from a member makes it join again, and so for ever
        hand_over=give_at_once,
    ),
}
"""What cooperative rebalancing takes care of."""
