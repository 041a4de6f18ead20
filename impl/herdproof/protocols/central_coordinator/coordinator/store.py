"""
Writes of the coordinator to ZooKeeper: fenced by its epoch, split below 1 MB, idempotent.

A write says what is to stand under which path; the store finds out what must be created for that.
Writes of one group are done one after the other, and those that wait are done together; groups do
not wait for each other. Every transaction checks the epoch node, so that ZooKeeper refuses it once
another coordinator has been elected: then `fenced` is called, and this one steps down.

A write with a `CommitPoint` is atomic: its last transaction sets the group's node, under the
version it is known to have, and only that makes it valid. One whose connection is lost is not tried
again: whether it was done is read from that node.

Source: PROTOCOLS.md (Election, ruling 1; "owner writes beyond ZooKeeper's 1 MB are split").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TypeAlias

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.election.elector import fenced
from herdproof.zookeeper.names import lineage
from herdproof.zookeeper.operations import (
    Answer,
    Changed,
    Create,
    Delete,
    Done,
    Multi,
    Refusal,
    Set,
    Why,
)


class StoreResult(Enum):
    """Results of a write."""

    DONE = "done"
    CONFLICT = "conflict"
    """Something else stands there than this coordinator believes; read the group again."""
    UNKNOWN = "unknown"
    """ZooKeeper gave no answer: it may or may not have been done."""


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """The node whose write makes a write of several transactions valid."""

    path: str
    data: Callable[[int], bytes]
    """Its data, given the number of transactions."""
    step: CoordinationStep | None = None
    """Step of the protocol that its write is, if it is one."""


Write: TypeAlias = Create | Set | Delete
Batch: TypeAlias = list[tuple[str, bytes | None]]
Then: TypeAlias = Callable[[StoreResult], None]

NOBODY_KNOWS = frozenset({Why.CONNECTION_LOSS, Why.SESSION_EXPIRED})
"""A write that is refused so may or may not have been done."""

AT_ONCE = 250
"""Most paths in a transaction: to make one, and to hear of it, takes up to 20 µs for each."""

REPAIRS = 64
"""Most times that a transaction is built anew because ZooKeeper's tree is not as was believed."""


@dataclass(slots=True, eq=False)
class Job:
    """A write that is not done yet."""

    group: str
    changes: dict[str, bytes | None]
    """The data of each path; None: nothing is to stand there."""
    thens: list[Then]
    point: CommitPoint | None = None
    offsets: dict[str, Offset] = field(default_factory=dict)
    """Of the paths, those that keep an offset: to write one is a step."""
    parts: deque[Batch] | None = None
    """The transactions that are not done yet; None before it has begun."""
    size: int = 0
    """The number of transactions in all."""
    asked: tuple[Write, ...] = ()
    """The one that is under way."""
    step: int = 0
    """The number of the question by which a step was taken that is not answered; else 0."""
    gone: set[str] = field(default_factory=set)
    """Paths to be deleted under which nothing stands."""
    tries: int = 0
    repairs: int = 0


class Store(CorePart):
    """The writes of all groups; `refused` is called when the fence refuses one."""

    def __init__(self, context: Context, refused: Callable[[], None]) -> None:
        super().__init__(context)
        self.jobs: dict[str, deque[Job]] = {}
        """By group, the oldest first; that one is under way."""
        self.standing: dict[str, set[str]] = {}
        """By group, the paths that are known to stand; "": those that all groups share."""
        self.versions: dict[str, int] = {}
        """Of the points' nodes, the versions that they are known to have."""
        paths = context.paths
        self._shared = frozenset({paths.root, paths.groups, paths.consumers})
        self._refused = refused

    # ── What stands ─────────────────────────────────────────────────────────────────────────

    def stands(self, group: str, path: str) -> None:
        """A node was read, or made: it stands, and so does everything above it."""
        for above in lineage(path):
            standing = self._standing(group, above)
            if above in standing:
                return
            standing.add(above)

    def is_known(self, group: str, path: str) -> bool:
        """True if a node is known to stand."""
        return path in self._standing(group, path)

    def forget(self, group: str) -> None:
        """Nothing is known of a group any more; it has no write under way."""
        self.standing.pop(group, None)
        self.versions.pop(self._paths.group(group), None)

    def clear(self) -> None:
        """No write is wanted any more, and nothing is known."""
        self.jobs.clear()
        self.standing.clear()
        self.versions.clear()

    def _standing(self, group: str, path: str) -> set[str]:
        return self.standing.setdefault("" if path in self._shared else group, set())

    # ── Writes ──────────────────────────────────────────────────────────────────────────────

    def write(
        self, group: str, changes: Mapping[str, bytes | None], then: Then,
        point: CommitPoint | None = None, offsets: Mapping[str, Offset] | None = None,
    ) -> None:  # fmt: skip
        """
        Write this after what is being written for the group, and go on with its outcome.

        `offsets` names the paths that keep an offset, and which they are given.
        """
        jobs = self.jobs.setdefault(group, deque())
        last = jobs[-1] if len(jobs) > 1 else None
        if last is not None and last.point is None and point is None:
            last.changes.update(changes)
            last.offsets.update(offsets or {})
            last.thens.append(then)
            return
        jobs.append(Job(group, dict(changes), [then], point, dict(offsets or {})))
        if len(jobs) == 1:
            self._go_on(jobs[0])

    def is_idle(self, group: str) -> bool:
        """True if nothing is being written for the group."""
        return not self.jobs.get(group)

    def _go_on(self, job: Job) -> None:
        """Ask for a job's next transaction, or finish it."""
        if job.parts is None:
            job.parts = deque(self._split(job))
            job.size = len(job.parts)
        while job.parts:
            job.asked = tuple(self._operations(job))
            if job.asked:
                step = self._step(job)
                then = partial(self._answered, job)
                number = self._outbox.ask(self._fenced(job.asked), then, step)
                if step is not None:
                    job.step = number
                return
            job.parts.popleft()
        self._finish(job, StoreResult.DONE)

    def _step(self, job: Job) -> CoordinationStep | None:
        """
        The step of the protocol that is taken by asking for the transaction, if it is one.

        With a point that is the first one: what is written was decided on by then.
        """
        if job.point is not None:
            return None if job.step else job.point.step
        offsets = tuple(job.offsets[o.path] for o in job.asked if o.path in job.offsets)
        if not offsets:
            return None
        epoch = self._context.epoch
        return CoordinationStep(
            action="flush_offsets", group=job.group, epoch=epoch, partitions=offsets
        )

    def _fenced(self, operations: tuple[Write, ...]) -> Multi:
        return fenced(self._paths.election, self._context.epoch, operations)

    def _finish(self, job: Job, outcome: StoreResult) -> None:
        """Tell whoever waits for it, then begin with what came in the meantime."""
        jobs = self.jobs.get(job.group)
        if not jobs or jobs[0] is not job:
            return  # all was cleared
        jobs.popleft()
        for then in job.thens:
            then(outcome)
        if jobs and jobs[0].parts is None:
            self._go_on(jobs[0])
        if not jobs and self.jobs.get(job.group) is jobs:
            del self.jobs[job.group]

    def _split(self, job: Job) -> Iterator[Batch]:
        """A job's transactions, none of them too large; one with a point has at least one."""
        part: Batch = []
        room = limit = self._settings.max_transaction_bytes - _OVERHEAD
        for path, data in job.changes.items():
            # Twice the path, since a parent may have to be created with it.
            needs = 2 * (len(path) + _OVERHEAD) + len(data or b"")
            if part and (needs > room or len(part) == AT_ONCE):
                yield part
                part, room = [], limit
            part.append((path, data))
            room -= needs
        if part or job.point:
            yield part

    def _operations(self, job: Job) -> Iterator[Write]:
        """The operations of a job's next transaction, by what is known to stand."""
        assert job.parts
        made: set[str] = set()
        for path, data in job.parts[0]:
            if data is None:
                if path not in job.gone:
                    yield Delete(path)
                continue
            yield from self._parents(job.group, path, made)
            yield Set(path, data) if self._has(job.group, path, made) else Create(path, data)
            made.add(path)
        if job.point is not None and len(job.parts) == 1:
            path, data = job.point.path, job.point.data(job.size)
            yield from self._parents(job.group, path, made)
            if self.is_known(job.group, path):
                yield Set(path, data, self.versions.get(path, _NO_VERSION))
            else:
                yield Create(path, data)

    def _parents(self, group: str, path: str, made: set[str]) -> Iterator[Create]:
        """Create what is missing above a path, from the top."""
        missing = []
        for above in lineage(path.rpartition("/")[0]):
            if self._has(group, above, made):
                break
            missing.append(above)
        for above in reversed(missing):
            made.add(above)
            yield Create(above)

    def _has(self, group: str, path: str, made: set[str]) -> bool:
        return path in made or self.is_known(group, path)

    # ── Answers ─────────────────────────────────────────────────────────────────────────────

    def _answered(self, job: Job, answer: Answer) -> None:
        """Go on after a transaction's answer."""
        assert job.parts
        is_done = isinstance(answer, Done)
        if job.step and not (is_done and job.point and len(job.parts) > 1):
            outcome = outcome_of(answer)
            step = CoordinationStep(
                action="answered", group=job.group, number=job.step, outcome=outcome
            )
            self._outbox.emit(step)
            job.step = 0
        if isinstance(answer, Done):
            self._note(job, answer.answers[1:])
            job.tries = job.repairs = 0
            job.parts.popleft()
            self._go_on(job)
        elif isinstance(answer, Refusal):
            self._handle_refusal(job, answer)
        else:
            self._give_up(job, StoreResult.CONFLICT, f"answered by {type(answer).__name__}")

    def _note(self, job: Job, answers: Sequence[object]) -> None:
        """A transaction was done: remember what stands, and what does not."""
        point = self._paths.group(job.group)
        for operation, answer in zip(job.asked, answers, strict=True):
            if isinstance(operation, Delete):
                self._standing(job.group, operation.path).discard(operation.path)
                continue
            self.stands(job.group, operation.path)
            if operation.path == point:
                self.versions[point] = answer.stat.version if isinstance(answer, Changed) else 0

    def _handle_refusal(self, job: Job, refusal: Refusal) -> None:
        """Step down, try again, or build the transaction anew, by why it was refused."""
        if refusal.why in NOBODY_KNOWS:
            self._try_again(job, refusal)
            return
        index = refusal.index if refusal.index is not None else -1
        if index == 0:
            self._refused()  # as a rule, that clears all jobs
            self._finish(job, StoreResult.CONFLICT)
            return
        index -= 1
        if not 0 <= index < len(job.asked) or not self._repair(job, job.asked[index], refusal.why):
            self._give_up(job, StoreResult.CONFLICT, refusal.why.value)
            return
        self._go_on(job)

    def _try_again(self, job: Job, refusal: Refusal) -> None:
        """Nobody knows whether it was done. To write it again does no harm, but for a point."""
        job.tries += 1
        if job.point is not None or job.tries > self._settings.zookeeper_retries:
            self._give_up(job, StoreResult.UNKNOWN, refusal.why.value)
            return
        backoff_ms = self._settings.zookeeper_backoff_ms
        self._after(backoff_ms, ("store", job.group), partial(self._go_on, job))

    def _repair(self, job: Job, culprit: Write, why: Why) -> bool:
        """Learn from a refusal what stands; whether the transaction can be built anew."""
        job.repairs += 1
        is_point = job.point is not None and culprit.path == job.point.path
        if job.repairs > REPAIRS or (is_point and why is not Why.NO_NODE):
            return False
        if why is Why.NODE_EXISTS:
            self.stands(job.group, culprit.path)
        elif why is Why.NO_NODE and isinstance(culprit, Delete):
            job.gone.add(culprit.path)
        elif why is Why.NO_NODE:
            path = culprit.path if isinstance(culprit, Set) else culprit.path.rpartition("/")[0]
            self._standing(job.group, path).discard(path)
        else:
            return False
        return True

    def _give_up(self, job: Job, outcome: StoreResult, why: str) -> None:
        self._outbox.report(What.ZOOKEEPER_TROUBLE, job.group, task="write", why=why)
        self._finish(job, outcome)


_OVERHEAD = 128
"""Bytes of an operation beside its path and data: its header, its ACL; generous."""

_NO_VERSION = 2**31 - 1
"""A version that no node has: for one whose version is not known, so that it is refused."""


def outcome_of(answer: Answer) -> str:
    """The word for ZooKeeper's answer in a step's `answered`."""
    if isinstance(answer, Refusal) and answer.why in NOBODY_KNOWS:
        return "unknown"
    return "done" if isinstance(answer, Done) else "refused"
