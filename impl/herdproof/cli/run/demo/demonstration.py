"""The course of a demonstration: the cluster starts, the plan is played, all ends and is judged."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from herdproof.cli.run.demo.cluster import TOPIC, Child, Cluster
from herdproof.cli.run.demo.judging import Ending, judged
from herdproof.cli.run.demo.observation import Delivery, Observations
from herdproof.cli.run.demo.plan import Act, Do, Whom, planned, turns
from herdproof.cli.run.demo.producer import NumberedRecords
from herdproof.cli.run.demo.snapshot import Chapter, Json, Played, Scene, snapshot
from herdproof.errors import NotInTime

LOOK_S = 0.1
"""The seconds between two looks at everything."""
READ_WITHIN_S = 60.0
"""Longest time that the first records may take, and an election at any time."""
DRAINED_WITHIN_S = 20.0
"""Longest time that the last records may take."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of a demonstration."""

    seconds: float
    consumers: int
    partitions: int


class Demonstration:
    """
    One run; `snapshot` may be asked by any thread at any time.

    `tell` hears each sentence as it becomes true.
    """

    def __init__(self, size: Size, out: Path, tell: Tell) -> None:
        self._size, self._out, self._tell = size, out, tell
        self._lock = threading.Lock()
        self._seen = Observations(size.partitions)
        self._chapter, self._saying = Chapter.STARTING, "everything starts"
        self._began_s: float | None = None
        self._ended_s: float | None = None
        self._cluster = Cluster(out, size.consumers, size.partitions, self._says)
        self._acts = deque(planned(size.seconds))
        self._late_s = 0.0
        self._turn = turns(size.consumers)
        self._broken: Child | None = None
        self._played: list[Played] = []
        self._ending: Ending | None = None

    # ── The course ──────────────────────────────────────────────────────────────────────────

    def run(self) -> Ending:
        """All of it; raises what keeps services from starting, or from going on."""
        with self._cluster as cluster:
            bootstrap = cluster.kafka.bootstrap
            with NumberedRecords(bootstrap, TOPIC, self._size.partitions, self._sent) as records:
                self._says("consumers register, and get their partitions")
                self._until(lambda: self._seen.all_are_read, "the first records", READ_WITHIN_S)
                self._play()
                self._says("the last records are read")
                self._chapter = Chapter.ENDING
                self._ended_s = time.monotonic()
                records.stop()
            self._until(lambda: not self._seen.waiting, "", DRAINED_WITHIN_S)
            self._says("consumers leave, and all processes end")
            cluster.end()
            self._read()
        ending = judged(self._out, self._seen, self._says)
        with self._lock:
            self._ending, self._chapter, self._saying = ending, Chapter.OVER, ""
        return ending

    def _play(self) -> None:
        """Carry the plan out."""
        with self._lock:
            self._began_s, self._chapter = time.monotonic(), Chapter.RUNNING
        self._says("records flow, and every partition is read")
        while self._elapsed_s() < self._size.seconds + self._late_s:
            self._look()
            if self._acts and self._elapsed_s() >= self._acts[0].at_s + self._late_s:
                self._carry_out(self._acts[0])
        self._look()

    def _carry_out(self, act: Act) -> None:
        """Do it now, or, if nobody leads at present, when somebody does."""
        late_s = self._elapsed_s() - act.at_s
        if act.whom is Whom.ZOOKEEPER:
            name = "ZooKeeper"
            self._cluster.break_zookeeper(act.do)
        else:
            child = self._met(act.whom)
            if child is None:
                if late_s - self._late_s > READ_WITHIN_S:
                    raise NotInTime(f"no coordinator led for {READ_WITHIN_S:g} s: see {self._out}")
                return
            name, self._broken = child.name, child
            with self._lock:
                self._cluster.break_child(act.do, child)
        self._late_s = max(self._late_s, late_s)
        self._acts.popleft()
        told = act.told(name)
        with self._lock:
            self._played.append(Played(time.monotonic(), act.do, told))
        self._says(told)

    def _met(self, whom: Whom) -> Child | None:
        """Whom an act meets at present."""
        cluster = self._cluster
        match whom:
            case Whom.LEADER:
                leads = [c for c in cluster.coordinators if c.number == cluster.leader]
                return next((c for c in leads if c.done is Do.START), None)
            case Whom.CONSUMER:
                return cluster.consumers[next(self._turn) - 1]
            case _:
                return self._broken

    # ── What is seen ────────────────────────────────────────────────────────────────────────

    def _elapsed_s(self) -> float:
        assert self._began_s is not None, "the plan is played"
        return time.monotonic() - self._began_s

    def _until(self, holds: Callable[[], bool], what: str, patience_s: float) -> None:
        """Look until it holds; raises `NotInTime` where `what` is said that did not come."""
        deadline_s = time.monotonic() + patience_s
        while not holds():
            if time.monotonic() > deadline_s:
                if not what:
                    return
                raise NotInTime(f"{what} did not come within {patience_s:g} s: see {self._out}")
            self._look()

    def _look(self) -> None:
        """Look after all processes, and at what they have said, once."""
        time.sleep(LOOK_S)
        self._cluster.look()
        self._read()

    def _read(self) -> None:
        """Take in what consumers have said."""
        with self._lock:
            for child in self._cluster.consumers:
                for line in child.said():
                    if line.pop("said") == "has":
                        child.has = line["partitions"]
                    else:
                        self._seen.delivered(
                            Delivery(reader=str(child.number), life=child.life, **line)
                        )

    def _sent(self, partition: int, number: int) -> None:
        """Run by the producer's thread."""
        with self._lock:
            self._seen.sent(partition, number)

    def _says(self, words: str) -> None:
        """Tell what goes on, with the time from when records flowed."""
        self._saying = words
        at = "      " if self._began_s is None else f"{self._elapsed_s():4.0f} s"
        self._tell(f"{at}  {words}")

    def snapshot(self) -> Json:
        """The snapshot that the page shows now."""
        with self._lock:
            now_s = self._ended_s or time.monotonic()
            began_s = self._began_s or now_s
            next_s = None
            if self._chapter is Chapter.RUNNING and self._acts:
                next_s = self._acts[0].at_s + self._late_s - (now_s - began_s)
            return snapshot(
                Scene(
                    chapter=self._chapter, saying=self._saying, now_s=now_s, began_s=began_s,
                    seconds=self._size.seconds + self._late_s, next_s=next_s,
                    coordinators=self._cluster.coordinators, consumers=self._cluster.consumers,
                    leader=self._cluster.leader, played=self._played, seen=self._seen,
                    ending=self._ending,
                )
            )  # fmt: skip
