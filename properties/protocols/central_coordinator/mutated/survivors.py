"""
Mutants of the cores that are not killed, with the reason for which each may live.

A run shows each reason, as far as one can: that of an expression that is never otherwise, by how
often its mistake would have made a difference, which is never (`NEVER`); that a value is read by
nobody, since a run that came to read it would fail; that a change has no effect, as whatever comes
by it comes to what it came to without.
"""

from __future__ import annotations

from collections.abc import Mapping

STARTED = (
    "coordinator.rebalancing.rebalance.Rebalancer.started: drop `generation != group.generation`"
)

SURVIVORS: Mapping[str, str] = {
    STARTED: (
        "one request at a time is out: without an answer to its former Start a member is not sent "
        "the Stop that the next generation's Starts wait for"
    ),
    "client.connector.Connector._settle: drop `pending.resolved`": (
        "neither asked for nor resolved is a leaver's last commit, whose fetchers are closed: what "
        "is done for a start that was resolved is nothing then"
    ),
    "client.connector.Connector.__init__: skip `self._told_until_ms = 0`": (
        "the Register's step sets it, before anybody reads it"
    ),
    "coordinator.rebalancing.rebalance.Rebalancer.run: drop `not any(self.rebalance_request_q)`": (
        "no handler finds anything in an empty queue: this only saves the time to look"
    ),
}
"""By the mutant's id; whoever edits the code that one names looks at it anew."""

NEVER = frozenset({STARTED})
"""Those whose mistake makes no difference to the value that is asked for there, in any run."""
