"""
One broker, as a program: it stands for election, writes on and on, and reports in JSON lines.

    python election_broker.py HOSTS BROKER TIMEOUT_S PATH RUN

Like an owner that has not understood what its epoch is for, it writes to the node at PATH every
100 ms, leading or not, always under the last epoch that it was elected in. So it shows whether
ZooKeeper accepts what a paused or cut off broker does when it comes back. `zxid` is that of the
write's transaction, `at` the Unix time in seconds. The lines of its trace stand among the reports.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time

from herdproof.protocols.election.shell import ZkElection
from herdproof.protocols.election.tracing import Tracer
from herdproof.zookeeper.operations import Changed, Done, Refusal, Set, Why

WRITE_EVERY_S = 0.1


class Broker:
    """An elector whose owner never stops to write."""

    def __init__(self, hosts: str, broker: str, timeout_s: float, path: str, run: str) -> None:
        self.broker = broker
        self.path = path
        self.tracer = Tracer(broker, run, sys.stdout)
        self.epoch = 0
        self.ends = threading.Event()
        self.election = ZkElection(
            hosts,
            broker,
            on_elected=self.elected,
            on_deposed=lambda epoch: self.report("deposed", epoch),
            session_timeout_s=timeout_s,
            observe=self.tracer,
        )

    def run(self) -> None:
        """Live until SIGTERM."""
        signal.signal(signal.SIGTERM, lambda *_: self.ends.set())
        self.election.start(timeout_s=60.0)
        self.election.stand()
        while not self.ends.wait(WRITE_EVERY_S):
            if self.epoch:
                self.write(self.epoch)
        self.election.close()

    def elected(self, epoch: int) -> None:
        """From now on, write under this epoch."""
        self.epoch = epoch
        self.report("elected", epoch)

    def write(self, epoch: int) -> None:
        """Write, and report how that went."""
        data, since_ns = f"{self.broker} {epoch}".encode(), time.time_ns()
        answer = self.election.write(Set(self.path, data), epoch=epoch)
        self.tracer.wrote(epoch, answer, since_ns)
        match answer:
            case Done(answers=(*_, Changed(stat=stat))):
                self.report("wrote", epoch, zxid=stat.mzxid)
            case Refusal(why=Why.CONNECTION_LOSS | Why.SESSION_EXPIRED):
                self.report("unsure", epoch)
            case refusal:
                self.report("refused", epoch, why=str(refusal))

    def report(self, event: str, epoch: int, **more: object) -> None:
        """One line."""
        line = {"event": event, "epoch": epoch, "broker": self.broker, "at": time.time(), **more}
        sys.stdout.write(json.dumps(line) + "\n")  # at once: the tracer writes, too
        sys.stdout.flush()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    Broker(sys.argv[1], sys.argv[2], float(sys.argv[3]), *sys.argv[4:]).run()
