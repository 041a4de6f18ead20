"""
What coordinators do, watched: elections, writes, requests, owners, what is stored.

Where two coordinate at a time, the one of the latest epoch counts; of one that is deposed and does
not know it only that is judged which nobody can take back: that a write of its is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from herdproof.pipeline.judging import events as e
from herdproof.pipeline.judging.consumption_watch import Offsets
from herdproof.pipeline.judging.findings import Findings, name_of

EPOCHS = 32
"""So many of the last epochs are remembered."""

CONNECTIONS = 16
"""So many of a consumer's last connections are remembered."""

Owners = Mapping[e.Partition, str]
Coordinates = tuple[str, int]
"""A node and which of its processes."""


class Coordination:
    """The sentences that are about what coordinators do."""

    HEARS: ClassVar[Mapping[type[e.Event], str]] = {
        e.ProcessStarted: "started", e.Elected: "elected", e.Deposed: "deposed",
        e.Wrote: "wrote", e.Assigned: "assigned", e.GroupDeleted: "deleted",
        e.Requested: "requested",
        e.Commanded: "commanded", e.Heard: "heard", e.Noted: "noted", e.Committed: "committed",
    }  # fmt: skip

    def __init__(self, findings: Findings, offsets: Offsets) -> None:
        self._found = findings
        self._offsets = offsets
        self._epoch = 0
        """The latest that anybody coordinates in."""
        self._elected: dict[int, tuple[Coordinates, int]] = {}
        """By epoch: whose it is, and since when."""
        self._lives: dict[str, int] = {}
        self._deposed: set[str] = set()
        """Who knows that it coordinates no more."""
        self._written: tuple[int, int] = (0, 0)
        """The latest generation that is stored, and its epoch."""
        self._owners: Owners | None = {}
        """None: not known."""
        self._told: dict[tuple[str | None, e.Partition], set[int]] = {}
        """By coordinator: what the owner, who still is it, has told and may be stored."""
        self._seen: dict[str, int] = {}
        """By consumer's node, the latest epoch that its process has heard of."""
        self._requests: dict[str, dict[int | None, tuple[str, set[str]]]] = {}
        """By consumer and connection: whose, and what was sent and is not obeyed."""
        self.refused = 0
        self.back = 0

    # ── Elections ───────────────────────────────────────────────────────────────────────────

    def started(self, event: e.ProcessStarted) -> None:
        """A process starts: what it knew is gone."""
        node = event.node or ""
        if event.role == "consumer":
            self._seen.pop(node, None)
            return
        self._found.note(event, "")
        self._lives[node] = self._lives.get(node, 0) + 1
        self._deposed.discard(node)
        self._forget_told(node)

    def elected(self, event: e.Elected) -> None:
        """There is at most one coordinator per epoch."""
        node, epoch = event.node or "", event.epoch or 0
        self._found.note(event, "")
        self._found.checked["ONE_COORDINATOR"] += 1
        self._deposed.discard(node)
        self._forget_told(node)
        me = (node, self._lives.get(node, 0))
        other, _ = self._elected.setdefault(epoch, (me, event.time_ns))
        if other != me:
            self._found.violate(
                "ONE_COORDINATOR", event, f"{other[0]} and {node} both coordinate in epoch {epoch}"
            )
        if len(self._elected) > EPOCHS:
            del self._elected[min(self._elected)]
        self._epoch = max(self._epoch, epoch)

    def deposed(self, event: e.Deposed) -> None:
        """It knows that it coordinates no more."""
        self._found.note(event, "")
        self._deposed.add(event.node or "")
        self._forget_told(event.node)

    def _forget_told(self, node: str | None) -> None:
        for key in [key for key in self._told if key[0] == node]:
            del self._told[key]

    def _is_over(self, event: e.Event) -> bool:
        """Whether another epoch than the event's is the latest."""
        return event.epoch is not None and event.epoch < self._epoch

    # ── Writes ──────────────────────────────────────────────────────────────────────────────

    def wrote(self, event: e.Wrote) -> None:
        """A write is accepted only from the coordinator of the current epoch."""
        self._found.checked["FENCED_WRITE"] += 1
        if not self._is_over(event):
            return
        for epoch in sorted(self._elected):
            (node, _), since_ns = self._elected[epoch]
            if event.epoch is not None and epoch > event.epoch and since_ns < event.asked_ns:
                self._found.violate(
                    "FENCED_WRITE", event,
                    f"a write that {event.node} sent in epoch {event.epoch} is accepted, when "
                    f"{node} coordinated in epoch {epoch} already",
                )  # fmt: skip
                return

    def assigned(self, event: e.Assigned) -> None:
        """Generations and epochs never go back."""
        self._found.note(event, "")
        epoch, generation = event.epoch or 0, event.generation or 0
        before = self._written
        if self._is_over(event) and generation <= before[1]:
            return  # the answer to a write of the past
        self._found.checked["MONOTONE"] += 1
        if generation < before[1] or (epoch < before[0] and not self._is_over(event)):
            self._found.violate(
                "MONOTONE", event,
                f"after epoch {before[0]} and generation {before[1]} comes epoch {epoch} and "
                f"generation {generation}",
            )  # fmt: skip
        self._written = (epoch, generation)
        self._owners = dict(event.owners)
        self._told.clear()

    def deleted(self, event: e.GroupDeleted) -> None:
        """The next generation is another group's."""
        self._found.note(event, "")
        self._written = (self._written[0], 0)
        self._owners = {}
        self._told.clear()

    # ── Requests ────────────────────────────────────────────────────────────────────────────

    def requested(self, event: e.Requested) -> None:
        """Who knows that it coordinates no more has closed every channel, and sends nothing."""
        node = event.node or ""
        found = self._found
        found.checked["COMMANDS_NOBODY"] += 1
        if node in self._deposed:
            found.violate(
                "COMMANDS_NOBODY", event,
                f"{node} sends {event.consumer} a {event.what} after it was deposed",
                (event.consumer,),
            )  # fmt: skip
        of = self._requests.setdefault(event.consumer, {})
        known = of.get(event.connection)
        if known is None:
            known = of[event.connection] = (node, set())
            if len(of) > CONNECTIONS:
                del of[next(iter(of))]
        known[1].add(event.what)
        if event.what != "ping":
            found.note(event, event.consumer)
        if event.what == "start":
            self._relies_on_a_write(event)

    def _relies_on_a_write(self, event: e.Requested) -> None:
        """The fenced write of the owners precedes the Start that relies on it."""
        written, generation = self._written[1], event.generation or 0
        if self._owners is None or self._is_over(event) or written > generation:
            return  # a coordinator of the past speaks: its consumer's fence decides
        self._found.checked["WRITTEN_FIRST"] += 1
        for partition, offset in event.partitions:
            owner = self._owners.get(partition)
            stored = self._offsets.stored.get(partition, -1)
            if written < generation or owner != event.member:
                self._found.violate(
                    "WRITTEN_FIRST", event,
                    f"{event.node} tells {event.member} to start {name_of(partition)} in "
                    f"generation {generation}; stored is generation {written}, the owner {owner}",
                    (partition, event.consumer),
                )  # fmt: skip
                return
            self._found.checked["MONOTONE"] += 1
            if offset < stored:
                self._found.violate(
                    "MONOTONE", event,
                    f"{event.node} tells {event.member} to start {name_of(partition)} from "
                    f"{offset}; {stored} was stored",
                    (partition, event.consumer),
                )  # fmt: skip
            elif stored < 0 <= offset:
                self._offsets.stored[partition] = offset  # before the trace begins

    def commanded(self, event: e.Commanded) -> None:
        """A command is accepted only from the coordinator of the latest epoch seen."""
        node, epoch = event.node or "", event.epoch or 0
        self._found.checked["FENCED_COMMAND"] += 1
        seen = self._seen.get(node, 0)
        if epoch < seen:
            self._found.note(event, event.consumer)
            self._found.violate(
                "FENCED_COMMAND", event,
                f"{event.consumer} obeys a {event.what} of epoch {epoch}; it has heard of {seen}",
                (event.consumer,),
            )  # fmt: skip
        elif epoch > seen:
            self._seen[node] = epoch
        known = self._requests.get(event.consumer, {}).get(event.connection)
        if known is None:
            return
        if event.what in known[1]:
            known[1].remove(event.what)
        elif known[0] in self._deposed:
            self._found.violate(
                "COMMANDS_NOBODY", event,
                f"{event.consumer} obeys a {event.what} over its connection to {known[0]}, which "
                f"has told of no such request, and was deposed",
                (event.consumer,),
            )  # fmt: skip

    def heard(self, event: e.Heard) -> None:
        """A consumer has heard of an epoch."""
        node = event.node or ""
        self._seen[node] = max(self._seen.get(node, 0), event.epoch or 0)

    # ── What is stored ──────────────────────────────────────────────────────────────────────

    def noted(self, event: e.Noted) -> None:
        """A coordinator is told offsets: what the owner tells may be stored."""
        owners, told = self._owners, self._told
        if owners is None or event.generation != self._written[1]:
            return
        for partition, offset in event.partitions:
            stored = self._offsets.stored.get(partition, -1)
            if owners.get(partition) == event.member and offset > stored:
                told.setdefault((event.node, partition), set()).add(offset)

    def committed(self, event: e.Committed) -> None:
        """An offset was taken, or not."""
        topic, number = event.partition
        self._found.note(event, event.partition)
        self._found.row(
            "commits", topic=topic, partition=number, offset=event.offset,
            consumer=event.consumer, epoch=event.epoch, generation=event.generation,
            time_ns=event.time_ns, outcome=event.outcome,
        )  # fmt: skip
        if event.outcome == "refused":
            self.refused += 1
        elif event.outcome == "accepted" and event.offset is not None:
            self._accepted(event, event.offset)
        elif event.outcome == "stored" and event.offset is not None:
            self._stored(event, event.offset)
        elif event.outcome == "stored":
            self._offsets.stored.pop(event.partition, None)
            self._offsets.finished.pop(event.partition, None)

    def _accepted(self, event: e.Committed, offset: int) -> None:
        """An offset commit is accepted only from the partition's owner, in its generation."""
        if self._is_over(event) or self._too_far(event, offset):
            return
        self._went_back(event, offset)
        if self._owners is None:
            return
        self._found.checked["FENCED_COMMIT"] += 1
        owner = self._owners.get(event.partition)
        if owner != event.member or event.generation != self._written[1]:
            self._found.violate(
                "FENCED_COMMIT", event,
                f"{event.node} accepts {event.member}'s commit of {name_of(event.partition)} in "
                f"generation {event.generation}; the owner is {owner}, the generation "
                f"{self._written[1]}",
                (event.partition,),
            )  # fmt: skip
        self._told.setdefault((event.node, event.partition), set()).add(offset)

    def _stored(self, event: e.Committed, offset: int) -> None:
        """Committed offsets never go back, and are the owner's."""
        stored, partition = self._offsets.stored, event.partition
        before = stored.get(partition)
        if self._is_over(event):
            stored[partition] = max(offset, -1 if before is None else before)
            return
        self._found.checked["MONOTONE"] += 1
        if before is not None and offset < before and event.reset:
            self._went_back(event, offset)
            self._offsets.finished[partition] = offset
        elif before is not None and offset < before:
            self._went_back(event, offset)
            self._found.violate(
                "MONOTONE", event,
                f"{event.node or 'somebody'} stores offset {offset} of {name_of(partition)}, "
                f"after {before}",
                (partition,),
            )  # fmt: skip
        elif not self._too_far(event, offset) and offset != before:
            self._is_the_owners(event, offset)
        stored[partition] = offset
        if partition not in self._offsets.doubted:
            self._offsets.finished.setdefault(partition, offset)
        told = self._told.get((event.node, partition))
        if told is not None:
            self._told[event.node, partition] = {other for other in told if other > offset}

    def _too_far(self, event: e.Committed, offset: int) -> bool:
        """An offset is committed only for what the application has finished with."""
        first = self._offsets.finished.get(event.partition)
        if first is None:
            return False
        self._found.checked["ONLY_FINISHED"] += 1
        if offset <= first:
            return False
        self._offsets.finished[event.partition] = offset
        self._found.violate(
            "ONLY_FINISHED", event,
            f"offset {offset} of {name_of(event.partition)} is {event.outcome}; nobody has "
            f"finished {first}",
            (event.partition,),
        )  # fmt: skip
        return True

    def _is_the_owners(self, event: e.Committed, offset: int) -> None:
        """What is stored was told by the owner, who still is it."""
        if self._owners is None or event.epoch is None:
            return
        self._found.checked["FENCED_COMMIT"] += 1
        if offset not in self._told.get((event.node, event.partition), ()):
            owner = self._owners.get(event.partition)
            self._found.violate(
                "FENCED_COMMIT", event,
                f"{event.node} stores offset {offset} of {name_of(event.partition)}, which its "
                f"owner ({owner}) has not told",
                (event.partition,),
            )  # fmt: skip

    def _went_back(self, event: e.Committed, offset: int) -> None:
        """A figure: somebody commits less than is stored."""
        before = self._offsets.stored.get(event.partition)
        if before is not None and offset < before:
            self.back += 1
            self._found.figure(
                "commit_regression", before - offset, event.time_ns,
                name_of(event.partition),
            )  # fmt: skip

    # ── Doubt ───────────────────────────────────────────────────────────────────────────────

    def unsure(self) -> None:
        """Something is missing: only what never goes back is still known."""
        self._owners = None
        self._told.clear()
        self._requests.clear()
        self._deposed.clear()
