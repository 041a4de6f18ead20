"""
Snapshot for the page, as JSON: made of what was observed and done, and of nothing else.

Times are in seconds from when records first flowed from every partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from herdproof.cli.run.demo.cluster import Child
from herdproof.cli.run.demo.judging import Ending
from herdproof.cli.run.demo.observation import Observations, Silence, longest_after
from herdproof.cli.run.demo.plan import Do

Json = dict[str, Any]


class Chapter(Enum):
    """Stage of a demonstration."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Played:
    """An act that was carried out, and when (monotonic)."""

    at_s: float
    do: Do
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that a snapshot is made of; `now_s` and `began_s` are monotonic."""

    chapter: Chapter
    saying: str
    """Act that is being done, in a few words."""
    now_s: float
    began_s: float
    seconds: float
    next_s: float | None
    """Seconds until the next act; None where none is to come."""
    coordinators: Sequence[Child]
    consumers: Sequence[Child]
    leader: int | None
    played: Sequence[Played]
    seen: Observations
    ending: Ending | None = None


def snapshot(scene: Scene) -> Json:
    """The whole page, as of now."""
    began_s, now_s, seen = scene.began_s, scene.now_s, scene.seen
    silences = [s for p in seen.partitions for s in seen.silences(p, began_s, now_s)]
    return {
        "chapter": scene.chapter.value,
        "saying": scene.saying,
        "now_s": rounded(now_s - began_s),
        "seconds": scene.seconds,
        "next_s": None if scene.next_s is None else rounded(scene.next_s),
        "coordinators": [coordinator(child, scene.leader) for child in scene.coordinators],
        "consumers": [consumer(child) for child in scene.consumers],
        "partitions": [partition(scene, number, silences) for number in seen.partitions],
        "acts": acts(scene.played, silences, began_s),
        "rate": rounded(seen.rate(now_s)),
        "counts": {
            "sent": seen.acknowledged,
            "read": seen.deliveries,
            "two": seen.read_by_two,
            "lost": seen.lost,
            "again": seen.again,
        },
        "ending": None if scene.ending is None else scene.ending.as_json(),
    }


def partition(scene: Scene, number: int, silences: Iterable[Silence]) -> Json:
    """Who reads a partition, and has read it."""
    began_s, now_s = scene.began_s, scene.now_s
    stretches = scene.seen.stretches(number)
    own = [silence for silence in silences if silence.partition == number]
    reader = scene.seen.reader(number, now_s)
    since_s = reader.since_s if reader else max((s.until_s for s in stretches), default=began_s)
    return {
        "number": number,
        "reader": reader.reader if reader else None,
        "for_s": rounded(now_s - since_s),
        "longest_s": rounded(max((silence.lasted_s for silence in own), default=0.0)),
        "stretches": [
            [s.reader, rounded(s.since_s - began_s), rounded(s.until_s - began_s)]
            for s in stretches
        ],
        "silences": [[rounded(s.since_s - began_s), rounded(s.until_s - began_s)] for s in own],
    }  # fmt: skip


def acts(played: Sequence[Played], silences: Sequence[Silence], began_s: float) -> list[Json]:
    """The acts that were done, each with the longest silence of a partition after it, if any."""
    times = [*(act.at_s for act in played), float("inf")]
    told = []
    for act, next_s in zip(played, times[1:], strict=True):
        longest = longest_after(act.at_s, next_s, silences)
        told.append({
            "at_s": rounded(act.at_s - began_s),
            "do": act.do.value,
            "told": act.told,
            "silence": None if longest is None else {
                "lasted_s": rounded(longest.lasted_s), "partition": longest.partition,
            },
        })  # fmt: skip
    return told


def coordinator(child: Child, leader: int | None) -> Json:
    """The state of a coordinator, by what was done to it and by whom ZooKeeper names the leader."""
    leads = leader == child.number
    match child.done:
        case None:
            state = "starting"
        case Do.START:
            state = "leads" if leads else "stands by"
        case Do.STOP:
            state = "ended"
        case other:
            state = other.value
    is_broken = state not in ("leads", "ended")
    still = "ZooKeeper still names it the leader" if leads and is_broken else ""
    return {"name": child.name, "state": state, "more": still}


def consumer(child: Child) -> Json:
    """The state of a consumer, and the partitions that it says it has."""
    numbers = ", ".join(map(str, child.has))
    words = f"partition{'s' * (len(child.has) != 1)} {numbers}" if child.has else ""
    match child.done:
        case None:
            state, more = "starting", ""
        case Do.START:
            state, more = ("reads", words) if child.has else ("waits", "has no partition")
        case Do.STOP:
            state, more = "ended", ""
        case Do.PAUSE:
            state, more = Do.PAUSE.value, f"had {words}" if words else ""
        case other:
            state, more = other.value, ""
    return {"name": child.name, "number": str(child.number), "state": state, "more": more}


def rounded(seconds: float) -> float:
    """To hundredths, which is more than a page can show."""
    return round(seconds, 2)
