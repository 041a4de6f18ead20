"""
A difference between spec and code, told as shortly as can be: by leaving out what can be spared.

What was done is done again on fresh code without some of it, first many at a time, then one by one,
until every deed that is left is needed. Code that is not deterministic may differ once and not
again: then it is said how often it did.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from herdproof.conformance.holding.deeds import Case, Deed
from herdproof.conformance.holding.held import Differs, Hangs, Held
from herdproof.errors import HerdError

REPETITIONS = 5
"""The number of times that a story is done again, to see if it is told again."""
SECONDS = 30.0
"""The seconds for which a story is shortened."""


def again(held: Held, deeds: Sequence[Deed]) -> Differs | None:
    """Do these deeds on fresh code, as far as the spec allows; the difference, if there is one."""
    try:
        with held:
            held.run(lambda: _do(held, deeds))
    except Differs as found:
        return found
    except HerdError:  # nothing can be said: what was left out is needed
        return None
    return None


def _do(held: Held, deeds: Sequence[Deed]) -> None:
    for deed in deeds:
        match deed.kind:
            case "wait":
                held.wait()
            case "disturb":
                held.disturb(deed.name)
            case "start":
                held.start(*deed.arguments)
            case "put":
                held.put(*deed.arguments)
            case _:
                case = held.case(deed.name, *deed.arguments)
                if deed.taken and case is Case.SOME and deed.case is not Case.NONE:
                    held.wait()  # then, too, the code had done by itself what it needs
                    case = held.case(deed.name, *deed.arguments)
                if case is not Case.NONE or deed.case is Case.NONE:  # which was to be refused
                    held.offer(deed.name, *deed.arguments)


def shortened(held: Held, first: Differs, *, seconds: float = SECONDS) -> Differs:
    """
    The shortest story of a difference that was found within these seconds, and how often it came.

    None of its deeds can be spared, unless it says that there was no time to see that.
    """
    until = time.monotonic() + seconds
    times, of = _repeated(held, first, until)
    if not times:
        return first.noted(f"Seen once, and not again in {of} repetitions.")
    tries = 1 if times == of else 2 * of // times
    shortest, done = _dropped(held, first, tries, until)
    notes = [] if done else [f"Not shortened to the end: it took more than {seconds:g} s."]
    if times < of or tries > 1:
        times, of = _repeated(held, shortest, until)
        notes.append(f"Seen {times + 1} times in {of + 1} repetitions.")
    return shortest.noted(*notes)


def _repeated(held: Held, story: Differs, until: float) -> tuple[int, int]:
    """The number of times that a story comes again, and of its repetitions: at least one."""
    came: list[bool] = []
    most = 2 if isinstance(story, Hangs) else REPETITIONS  # each time costs a time-out
    while not came or (len(came) < most and time.monotonic() < until):
        came.append(again(held, story.deeds) is not None)
    return sum(came), len(came)


def _dropped(held: Held, shortest: Differs, tries: int, until: float) -> tuple[Differs, bool]:
    """The story without what can be spared; whether there was time to try all."""
    size = max(1, len(shortest.deeds) // 2)
    while True:
        at, spared = len(shortest.deeds), False
        while at > 0:
            left = [*shortest.deeds[: max(0, at - size)], *shortest.deeds[at:]]
            at -= size
            for _ in range(tries):
                if time.monotonic() >= until:
                    return shortest, False
                found = again(held, left)
                if found is not None and len(found.deeds) < len(shortest.deeds):
                    shortest, at, spared = found, min(at, len(found.deeds)), True
                    break
        if size == 1 and not spared:
            return shortest, True
        size = max(1, size // 2)
