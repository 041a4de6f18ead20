"""Work of an audit on lines: the functions that read one, and that judge a group."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

from herdproof.pipeline.spark.tables import Rows


@dataclass(frozen=True)
class Work:
    """Functions that read lines and judge groups; workers get them by pickle."""

    read: Callable[[str, str], Any]
    """A line from its text and place; raises an exception with `reason` and `why`."""
    malformed: type[Exception]
    judge: Callable[..., Rows]
    """As `herdproof.pipeline.audit.judge.judge`."""
    ungrouped: Container[object] = frozenset()
    """Protocols whose lines name no group: a run is one group."""
    long: int = 200_000
    """A group of so many lines is followed, not judged as a whole: it need not fit in memory."""


def protocol_work() -> Work:
    """The work on the protocols that there are."""
    from herdproof.pipeline.audit.judge import judge
    from herdproof.pipeline.audit.protocols import UNGROUPED, Malformed, read_line

    return Work(read_line, Malformed, judge, UNGROUPED)
