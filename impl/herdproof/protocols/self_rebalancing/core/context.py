"""The common ground of the core's parts: who the member is, what time it is, what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from herdproof.consuming.assignment import Partition
from herdproof.consuming.events import Ask, Report
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.self_rebalancing.core.events import ConnectorEffect
from herdproof.protocols.self_rebalancing.registries.paths import GroupDirs, parents
from herdproof.protocols.self_rebalancing.registries.registrations import ConsumerRegistration
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.protocols.self_rebalancing.steps import ConnectorAction, ConnectorStep
from herdproof.zookeeper.operations import Answer, Create, Operation, Refusal, Why

Then: TypeAlias = Callable[[], None]
Handle: TypeAlias = Callable[[Answer], None]

UNANSWERED = frozenset({Why.CONNECTION_LOSS, Why.SESSION_EXPIRED})
"""Refusals that leave open whether the operation was done: that the link is lost is told, too."""


@dataclass(slots=True)
class ConnectorContext:
    """One member, for all parts of its core."""

    dirs: GroupDirs
    consumer_id: str
    registration: ConsumerRegistration
    settings: ConnectorSettings
    now_ms: int = 0
    session: int = 0
    until_ms: int = 0
    """The end of the lease."""
    _effects: list[ConnectorEffect] = field(default_factory=list)
    _handles: dict[int, Handle] = field(default_factory=dict)
    _numbers: int = 0

    def emit(self, *effects: ConnectorEffect) -> None:
        """This is to be done, after what was to be done before."""
        self._effects += effects

    def take(self) -> list[ConnectorEffect]:
        """Take the effects since this was asked last."""
        effects, self._effects = self._effects, []
        return effects

    def step(
        self, action: ConnectorAction, partitions: Iterable[Offset] = (), *, number: int = 0,
        token: int = 0, outcome: str = "", subscription: str = "",
    ) -> None:  # fmt: skip
        """The step that is taken here, for whoever observes."""
        self.emit(
            ConnectorStep(
                action=action,
                group=self.dirs.group,
                consumer=self.consumer_id,
                session=self.session,
                subscription=subscription,
                partitions=tuple(partitions),
                number=number,
                token=token,
                outcome=outcome,
                until_ms=self.until_ms,
            )
        )

    def report(self, what: What, why: str) -> None:
        """For operators."""
        self.emit(Report(what, self.dirs.group, (("why", why),)))

    def ask(self, operation: Operation, handle: Handle) -> int:
        """Ask ZooKeeper, and go on with the answer; unless the connection is lost before."""
        self._numbers += 1
        self._handles[self._numbers] = handle
        self.emit(Ask(self._numbers, operation))
        return self._numbers

    @property
    def next_number(self) -> int:
        """That of the next `ask`."""
        return self._numbers + 1

    def answered(self, number: int, answer: Answer) -> None:
        """Go on with an answer; with one that says nothing, and with a late one, nobody does."""
        handle = self._handles.pop(number, None)
        if handle is None or (isinstance(answer, Refusal) and answer.why in UNANSWERED):
            return
        handle(answer)

    def cut_off(self) -> None:
        """The connection is lost: no answer counts any more."""
        self._handles.clear()


class Round:
    """Several questions at once; `then` is called when all are answered, and `close`d."""

    def __init__(self, context: ConnectorContext, then: Then) -> None:
        self._context = context
        self._then = then
        self._open = 1

    def ask(self, operation: Operation, handle: Handle) -> int:
        """One more question; its handle may ask further ones."""
        self._open += 1
        return self._context.ask(operation, partial(self._answered, handle))

    def close(self) -> None:
        """No more questions, but for those that answers lead to."""
        self._open -= 1
        if not self._open:
            self._then()

    def make_parents(self, path: str, handle: Handle) -> None:
        """Create the persistent nodes above a path; `handle` gets the last answer."""
        above = list(parents(path))
        for each in above[:-1]:
            self.ask(Create(each), ignore_answer)
        self.ask(Create(above[-1]), handle)

    def _answered(self, handle: Handle, answer: Answer) -> None:
        handle(answer)
        self.close()


def ignore_answer(answer: Answer) -> None:
    """Go on, whatever was answered: the next answer shows it."""
    del answer


def is_made(answer: Answer) -> bool:
    """Tells whether a node stands, of which this is the answer to its creation."""
    return not isinstance(answer, Refusal) or answer.why is Why.NODE_EXISTS


def named(partition: Partition, offset: int = NO_OFFSET) -> Offset:
    """A partition in a step."""
    return Offset(*partition, offset)


def told(answer: Answer) -> str:
    """An answer in a step: "done", or why not."""
    return answer.why.value if isinstance(answer, Refusal) else "done"


def reason(answer: Answer) -> str:
    """Why not, in a report: ZooKeeper has one word for what an ACL forbids and for bad names."""
    if isinstance(answer, Refusal) and answer.why is Why.BAD_ARGUMENTS:
        return "ZooKeeper refuses it to this user (look at the node's ACL)"
    return told(answer)
