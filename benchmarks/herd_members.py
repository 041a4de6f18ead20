"""
Members of one group in one process: what `benchmarks/herd` starts, a few of these at a time.

    python benchmarks/herd_members.py self_rebalancing 127.0.0.1:2181/part --group g --topic orders

They are what an application's consumers are (core, shell, sessions, streams), but that nobody
fetches, unless `--kafka` says where to fetch from. It obeys a command a line on stdin, each a JSON
list of a word and members' names:

    ["start", …]    these become members; answered by {"begun": …}, just before the first one does
    ["close", …]    these leave; answered in the same way
    ["consume"]     everybody finishes with one more record of each of its partitions
    ["look"]        answered by {"cpu_seconds": …, "bytes": …} of this process

Whenever a member begins to fetch, or ceases to, it prints {"member", "at", "partitions"} (null: it
fetches nothing). Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # this file is run as a script, and imports its neighbours

from benchmarks.measure import memory  # noqa: E402
from herdproof.consuming.events import Resolved, StartFetchers, StopFetchers  # noqa: E402
from herdproof.consuming.fetching.fetchers import Fetchers, Order  # noqa: E402
from herdproof.consuming.fetching.streams import RecordReader, Streams  # noqa: E402
from herdproof.consuming.membership import (  # noqa: E402
    ConsumerArguments,
    GroupMembership,
    Joining,
    joining,
)
from herdproof.consuming.offsets import NO_OFFSET, Offset, OffsetReset, number_of  # noqa: E402
from herdproof.consuming.subscription import named  # noqa: E402
from herdproof.record import Record  # noqa: E402

DRAFTED = "drafted"
"""The protocol of consumers that rebalance by themselves, with the habits of its draft."""
HABITS = frozenset({
    "split_brain", "stale_start", "zombie_commit", "zombie_release", "lost_wake_up",
    "retries_exhausted", "self_conflict", "new_session_goes_on", "suspended_for_good",
})  # fmt: skip
"""All of them; the spec has the same, and is not loaded for their names."""
ADDRESS = {"central": "coordinators", "self_rebalancing": "zookeeper", DRAFTED: "zookeeper"}
"""The option of each protocol that takes the address."""


class NothingFetched:
    """Fetchers that fetch nothing: a partition without an offset begins at 0."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def order(self, order: Order) -> None:
        """Tell where partitions begin that have no offset."""
        if isinstance(order, StartFetchers):
            for offset in order.partitions:
                if offset.offset == NO_OFFSET:
                    self._member.resolve(Offset(offset.topic, offset.partition, 0), order)


class Member:
    """One consumer, and the application that reads it."""

    def __init__(self, name: str, join: Joining, args: argparse.Namespace) -> None:
        self.name = name
        self._streams = Streams()
        self._reader = RecordReader()
        self._start: StartFetchers | None = None
        candidate = join(
            ConsumerArguments(
                group=args.group, consumer_id=name, auto_offset_reset=OffsetReset.SMALLEST,
                auto_commit=True, session_timeout_s=args.session_s, listens=False, trace=None,
                run=None, options={ADDRESS[args.protocol]: args.address},
            )
        )  # fmt: skip
        wanted = named({args.topic: 1})
        self.session: GroupMembership = candidate.begin(wanted, self._streams, None, self._observe)
        self.session.fetchers = self._fetchers(name, args)

    def _fetchers(self, name: str, args: argparse.Namespace) -> Fetchers:
        if args.kafka is None:
            return cast(Fetchers, NothingFetched(self))
        kafka = {"client.id": name, "group.id": args.group, "bootstrap.servers": args.kafka}
        session = self.session
        fetchers = Fetchers(
            kafka, OffsetReset.SMALLEST, self._streams, session.post, session.fail
        )  # fmt: skip
        fetchers.start()
        return fetchers

    def resolve(self, offset: Offset, start: StartFetchers) -> None:
        """A partition begins there."""
        self._streams.resolved((offset.topic, number_of(offset.partition)), offset.offset)
        self.session.post(Resolved(offset, start.generation))

    def consume(self) -> None:
        """Take one more record of each partition, and finish with it."""
        if (start := self._start) is None:
            return
        for partition, queue in zip(start.partitions, start.queues, strict=True):
            place = partition.topic, number_of(partition.partition)
            offset = self._streams.position(place) or 0
            record = Record(*place, offset, None, b"", None, generation=start.generation)
            self._streams.put(start.generation, queue, [record])
        while self._streams.take(self._reader, timeout_s=0.0):
            pass

    def _observe(self, _core: object, _event: object, effects: Sequence[Any]) -> None:
        for effect in effects:
            if isinstance(effect, StartFetchers):
                self._start = effect
                self._tell([number_of(each.partition) for each in effect.partitions])
            elif isinstance(effect, StopFetchers):
                self._start = None
                self._tell(None)

    def _tell(self, partitions: list[int] | None) -> None:
        tell({"member": self.name, "at": time.monotonic(), "partitions": partitions})


_printing = threading.Lock()


def tell(figures: dict[str, Any]) -> None:
    """Print a line of JSON, from any thread."""
    with _printing:
        print(json.dumps(figures), flush=True)


def joining_of(protocol: str) -> Joining:
    """How one joins a group of this protocol."""
    if protocol != DRAFTED:
        return joining(protocol)
    from herdproof.protocols.self_rebalancing.held.flawed import connector_with
    from herdproof.protocols.self_rebalancing.shell.joining import SelfRebalancingConsumer

    class DraftedConsumer(SelfRebalancingConsumer):
        """Who keeps all habits of the draft."""

        connector = connector_with(HABITS)

    return DraftedConsumer


def obey(args: argparse.Namespace) -> None:
    """Carry out what comes on stdin; when it is closed, the process ends, and nobody leaves."""
    join = joining_of(args.protocol)
    members: dict[str, Member] = {}
    for line in sys.stdin:
        word, *names = json.loads(line)
        if word == "start":
            new = {name: Member(name, join, args) for name in names}
            members |= new
            tell({"begun": time.monotonic()})
            for member in new.values():
                member.session.start()
        elif word == "close":
            tell({"begun": time.monotonic()})
            for name in names:
                members.pop(name).session.close(args.patience)
        elif word == "consume":
            for member in members.values():
                member.consume()
            tell({"consumed": len(members)})
        else:
            tell({"cpu_seconds": time.process_time(), "bytes": memory("VmRSS")})


def main() -> None:
    """Read the command line, and obey."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("protocol", choices=sorted(ADDRESS))
    parser.add_argument("address", help="of ZooKeeper (host:port/chroot), or of coordinators")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--kafka", help="where brokers listen, if records are to be fetched")
    parser.add_argument("--session-s", type=float, default=30.0, help="a session's time-out")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to leave in")
    obey(parser.parse_args())


if __name__ == "__main__":
    main()
