"""The assignors that can be named."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from herdproof.protocols.group_protocol.client.assignors.assignor import PartitionAssignor
from herdproof.protocols.group_protocol.client.assignors.plain import (
    RangeAssignor,
    RoundRobinAssignor,
)
from herdproof.protocols.group_protocol.client.assignors.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
)

ASSIGNORS: Mapping[str, Callable[[], PartitionAssignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
"""By name, what makes one."""
