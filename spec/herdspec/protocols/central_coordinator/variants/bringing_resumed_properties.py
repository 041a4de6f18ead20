"""The properties of members that resume, or bring offsets: those of both, proved together."""

from __future__ import annotations

from herdspec import specification
from herdspec.check.refinement.refine import Refinement
from herdspec.protocols.central_coordinator.lemmas import LEMMAS
from herdspec.protocols.central_coordinator.properties import POSSIBLE, settles
from herdspec.protocols.central_coordinator.variants.bringing_properties import (
    BRINGING_PROMISES,
    BRINGING_REFINEMENT,
    BROUGHT_CONTRACT,
    an_offset_is_brought,
    who_stopped_had_finished,
)
from herdspec.protocols.central_coordinator.variants.bringing_resumed import BringingResumers
from herdspec.protocols.central_coordinator.variants.resuming_properties import (
    OF_RESUMING,
    RESUMING_POSSIBLE,
    RESUMING_REFINEMENT,
    lose_touch,
    readmit,
)
from herdspec.protocols.central_coordinator.variants.returning_properties import (
    RETURNING_LEMMAS,
    RETURNING_POSSIBLE,
)

BRINGING_RESUMED_HELD = specification(BringingResumers, *BRINGING_PROMISES, settles)
"""Members that resume or bring offsets, and what is promised to them."""
BRINGING_RESUMED = specification(
    BringingResumers, *BRINGING_PROMISES, *POSSIBLE, *RETURNING_POSSIBLE, *RESUMING_POSSIBLE,
    an_offset_is_brought, *LEMMAS, *OF_RESUMING, *RETURNING_LEMMAS, who_stopped_had_finished,
)  # fmt: skip
"""Members that resume or bring offsets, and all that is known of them."""

CONTRACT_OF_BOTH = BROUGHT_CONTRACT.add(
    "ContractOfBringingResumers", lose_touch=lose_touch, readmit=readmit
)
"""The contract of who may become a member again while it consumes, or says where it stopped."""
BRINGING_RESUMED_REFINEMENT = Refinement(
    BRINGING_RESUMED, CONTRACT_OF_BOTH, BRINGING_REFINEMENT.fields,
    {**RESUMING_REFINEMENT.actions, **BRINGING_REFINEMENT.actions},
)  # fmt: skip
"""Seen as that contract."""
