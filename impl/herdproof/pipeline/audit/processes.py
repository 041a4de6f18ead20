"""
The audit by several processes of this machine, of text files that are too long for one of them.

They do what Spark's workers do, with the same functions: some pack parts of the files, then some
judge buckets of packets. No session has to start, and no line goes through Java. All packets are in
memory, some 50 bytes for each line; what has more than fits there is for Spark, which spills.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pyarrow as pa

from herdproof.pipeline.audit.audit_work import judge_packets
from herdproof.pipeline.audit.here import AuditHere, Whole, in_order
from herdproof.pipeline.spark.packets import Packet, pack, packets_of
from herdproof.pipeline.spark.sources import Sources
from herdproof.pipeline.spark.text_files import is_readable, parts_of, records_of, told_as_source
from herdspec.check.side_by_side import processors, side_by_side

BYTES_MOST = 1_500_000_000
"""The most bytes of lines that are judged by processes: some four million lines."""
BUCKETS_EACH = 8
"""The number of buckets for each process: whoever is done with one takes the next."""


def fits_processes(sources: Sources) -> bool:
    """True if these are text files of this machine, none packed, and not too large."""
    if sources.topic or sources.folders or sources.parquet or sources.segments:
        return False
    if not all(is_readable(path) and not path.endswith(".gz") for path in sources.text):
        return False
    size = 0
    for path in sources.text:
        with told_as_source(path):
            size += Path(path).stat().st_size
    return size <= BYTES_MOST


@dataclass
class AuditByProcesses(AuditHere):
    """An audit by so many processes: its settings, and its run."""

    processes: int = field(default_factory=processors)

    def plan(self, sources: Sources) -> tuple[int, Whole]:
        """The number of records, and the rows that will come of them."""
        parts, came = parts_of(sources.text)
        for part in parts[:1]:  # to load what reads and judges takes seconds: once, for all copies
            list(pack(islice(records_of(part), 1), self.work, 1))
        packets: list[list[Packet]] = [[] for _ in range(self.processes * BUCKETS_EACH)]

        def packed(number: int, _: object) -> list[pa.RecordBatch]:
            return [*pack(records_of(parts[number]), self.work, len(packets))]

        with side_by_side(packed, range(len(parts)), self.processes) as of:
            for number in range(len(parts)):
                for packet in packets_of(of(number, self.tell)):
                    packets[packet.bucket].append(packet)
        return came, Whole(self._judged(packets))

    def _judged(self, packets: list[list[Packet]]) -> Iterator[pa.RecordBatch]:
        """Rows of all tables, from the packets of each bucket."""

        def judged(number: int, _: object) -> list[pa.RecordBatch]:
            own = sorted(packets[number], key=in_order)
            return [*judge_packets(own, self.work, self.replay)]

        with side_by_side(judged, range(len(packets)), self.processes) as of:
            for number in range(len(packets)):
                yield from of(number, self.tell)
                self.tell("judging", (number + 1) / len(packets))
