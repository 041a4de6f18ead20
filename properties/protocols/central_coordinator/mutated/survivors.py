"""Mutants of the cores that are not killed, with the reason for which each may live."""

from __future__ import annotations

from collections.abc import Mapping

PORTION = "how much is done in one portion, which is some milliseconds either way"
ROUND = "it goes round for ever, and so does each test that comes by it"

SURVIVORS: Mapping[str, str] = {
    # What nobody can see.
    "client.connector.Connector._settle: drop `pending.resolved`": (
        "neither asked for nor resolved is a leaver's last commit, whose fetchers are closed"
    ),
    "client.connector.Connector.__init__: skip `self._told_until_ms = 0`": (
        "the Register's step sets it, before anybody reads it"
    ),
    "client.connector.Connector._request: `self._correlation_id + 1` becomes "
    "`self._correlation_id + 2`": "a request's number has to be another one, and is",
    "coordinator.offsets.ignore: skip `del done`": "it says that the argument is not used",
    "coordinator.rebalancing.rebalance.Rebalancer._leave: skip `group.waiting.clear()`": (
        "who is left in it lives, and is waited for by the next barrier anyway"
    ),
    "coordinator.rebalancing.rebalance.Rebalancer._write_owners: `lease_ms = "
    "max((m.session_timeout_ms for m in group.members.values()), default=0)` becomes `lease_ms = "
    "max((m.session_timeout_ms for m in group.members.values()), default=1)`": (
        "owners are written only where there are members"
    ),
    "coordinator.topics.TopicListeners.clear: skip `self.changes += 1`": (
        "the groups are forgotten with the topics, and their plans with them"
    ),
    "coordinator.members.recovery.Recovery.load: drop `group.name in self.queue`": (
        "it is put where it stands, and nobody waits there while there is room to read one more"
    ),
    "coordinator.rebalancing.rebalance.Rebalancer.started: drop `generation != group.generation`": (
        "one request at a time is out: without an answer to its former Start a member is not sent "
        "the Stop that the next generation's Starts wait for"
    ),
    # What costs a little, and changes nothing.
    "coordinator.offsets.Offsets.flush_later: drop `self.unwritten`": (
        "a timer goes off, and finds nothing to write"
    ),
    "coordinator.rebalancing.matches.Matches._extend: `self._left <= 0` becomes `self._left < 0`": (
        PORTION
    ),
    "coordinator.rebalancing.matches.Matches._extend: `self._left <= 0` becomes "
    "`self._left <= 1`": PORTION,
    "coordinator.store.Store._note: drop `isinstance(operation, Delete)`": (
        "what is wrongly taken to stand is found missing by the next write, which is built anew"
    ),
    "coordinator.pings.PingScheduler._over: `self._due[moment] -= 1` becomes "
    "`self._due[moment] -= 2`": "how the pings of a crowd are spread; everybody is pinged",
    # What is said.
    "coordinator.rebalancing.availability.Availability.waits: `many > 1` becomes `many > 2`": (
        "the words for how many are waited for"
    ),
    # What hangs.
    "coordinator.rebalancing.rebalance.Rebalancer.rebalance: negate `not group.loaded`": ROUND,
    "coordinator.coordinator.Coordinator._tick: skip "
    "`self.ping_scheduler.run(self.outbox.now_ms)`": ROUND,
    "coordinator.members.membership.Membership._retire: skip `group.dated = True`": ROUND,
    "coordinator.pings.PingScheduler.run: drop `self.queue[0][0] <= now_ms`": ROUND,
}
"""By the mutant's id; whoever edits the code that one names looks at it anew."""
