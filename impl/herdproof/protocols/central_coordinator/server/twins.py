"""Says that two members of a group have one id, which looks like one member everywhere else."""

from __future__ import annotations

from collections import Counter

from herdproof.protocols.central_coordinator.events import Report
from herdproof.protocols.central_coordinator.reports import What
from herdproof.troubles import Troubles

COUNTED = {What.MEMBER_JOINED, What.MEMBER_RESUMED, What.MEMBER_LOST, What.STEPPED_DOWN}
"""Reports that change who is there: few of all that there are."""


class Twins:
    """The members by their ids, as a coordinator's core reports them; told to `troubles`."""

    def __init__(self, troubles: Troubles) -> None:
        self._troubles = troubles
        self._members: Counter[tuple[str, str]] = Counter()

    def reported(self, report: Report) -> None:
        """Count who joins and goes; a broker that leads no more has none."""
        if report.what not in COUNTED:
            return
        who = (report.group, str(dict(report.details).get("consumer", "")))
        name = f"id {who!r}"
        match report.what:
            case What.MEMBER_JOINED | What.MEMBER_RESUMED:
                self._members[who] += 1
                if self._members[who] > 1:
                    self._troubles.tell(
                        name,
                        f"{self._members[who]} members of group {who[0]!r} have the id {who[1]!r}: "
                        f"each consumer needs one of its own (one that was cut off and has come "
                        f"back is counted twice until its old connection is given up)",
                    )
            case What.MEMBER_LOST:
                self._members[who] -= 1
                if self._members[who] == 1:
                    self._troubles.mend(name, f"one member of {who[0]!r} has the id {who[1]!r}")
                if self._members[who] < 1:
                    del self._members[who]
            case What.STEPPED_DOWN:
                self._members.clear()
