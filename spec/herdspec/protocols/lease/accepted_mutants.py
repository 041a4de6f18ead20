"""
Mistakes in the lease's clocks that no promise notices, and why they may live.

With one holder, one fault, and the lengths of the spec.
"""

from __future__ import annotations

from collections.abc import Mapping

LONGER = (
    "a promise that a lease ends in time would kill it; the grantor only counts from later on, or "
    "the holder from earlier, and what is owed is that neither errs to the other side"
)
GRANTS = (
    "a step promise that a lease is granted once, and comes back when it is given back, would "
    "kill it; that is the grantor's business, and no holder delivers any longer for it"
)
ORDERLY = (
    "a step promise that a request is sent, heard, and answered or lost, in this order and once, "
    "would kill it; whatever is heard without having been sent anew counts from an earlier sending"
)

SURVIVORS: Mapping[str, str] = {
    "grant: drop `not self.granted[m]`": GRANTS,
    "grant: skip `self.waited[m] = 0`": GRANTS,
    "grant: `self.waited[m] = 0` becomes `self.waited[m] = 1`": GRANTS,
    "give_back: skip `self.granted[m] = False`": GRANTS,
    "give_back: negate `told`": GRANTS,
    "ask: `self.since_sent[m] = 0` becomes `self.since_sent[m] = 1`": LONGER,
    "ask: drop `self.request[m] == Request.NONE`": ORDERLY,
    "hear: negate `self.request[m] == Request.SENT`": ORDERLY,
    "hear: drop `self.request[m] == Request.SENT`": ORDERLY,
    "learn: skip `self.request[m] = Request.NONE`": ORDERLY,
    "lose: negate `self.request[m] != Request.NONE`": ORDERLY,
    "lose: skip `self.request[m] = Request.NONE`": ORDERLY,
}
