"""
Consult: any broker tells who coordinates, and which brokers there are.

What ZooKeeper says of that is read when somebody asks, and remembered until a watch says that it
has changed. Once `consult_cache_ms` have passed (a watch can be lost with its session) it is read
again; meanwhile who asks is answered with what is known: the read may have to wait behind
thousands. Where nothing is known, those who ask wait, and are answered together.

Source: `002` (ConsultRequest, ConsultResponse). The brokers' addresses are those at which their
coordinators listen, which is *ours*: beside Kafka 3.9 that is not Kafka's own port. Where no
coordinator has said where it listens, `/brokers/ids` is taken at its word, as in the draft.
"""

from __future__ import annotations

import json
from functools import partial

from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.wire.messages import (
    NO_COORDINATOR,
    BrokerInfo,
    ConsultResponse,
    ErrorCode,
    Frame,
)
from herdproof.protocols.election.elector import read_leader
from herdproof.zookeeper.operations import Answer, Children, Data, Get, Names

_IDS = range(2**15)
"""Numbers that the wire's coordinator_id (int16) can hold."""


class Directory(CorePart):
    """Who coordinates, by ZooKeeper, and where the brokers listen."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.coordinator_id = NO_COORDINATOR
        self.brokers: dict[int, BrokerInfo] = {}
        self.good_until_ms: int | None = None
        """None: what is known has changed, or was never read."""
        self._found: dict[int, BrokerInfo] = {}
        self._leader = NO_COORDINATOR
        self._found_until_ms: int | None = None
        """Findings of the read that is under way, and how long they will be good."""
        self._waiting: list[tuple[int, Frame, bool]] = []
        self._open = 0
        self._server = context.server

    def consult(self, channel: int, frame: Frame, *, legacy: bool) -> None:
        """Somebody asks who coordinates: answer, now or when it has been read."""
        self._waiting.append((channel, frame, legacy))
        if self.good_until_ms is not None:
            self._answer()
        is_good = self.good_until_ms is not None and self._outbox.now_ms < self.good_until_ms
        if not is_good and not self._open:
            self._read()

    def fired(self, path: str) -> None:
        """A watch fired: what is known may be so no more."""
        if path in (self._paths.election.leader, self._paths.coordinators, self._paths.broker_ids):
            self.good_until_ms = self._found_until_ms = None

    def clear(self) -> None:
        """Whoever waits is gone, and what was asked will not be answered."""
        self._waiting.clear()
        self._open = 0
        self.good_until_ms = self._found_until_ms = None

    # ── Reading ─────────────────────────────────────────────────────────────────────────────

    def _read(self) -> None:
        """Read leader and brokers, and leave watches."""
        self._found_until_ms = self._outbox.now_ms + self._settings.consult_cache_ms
        self._found, self._leader = {}, NO_COORDINATOR
        self._open = 2
        self._outbox.ask(Get(self._paths.election.leader, watch=True), self._leader_read)
        listed = partial(self._listed, self._paths.coordinators)
        self._outbox.ask(Children(self._paths.coordinators, watch=True), listed)

    def _leader_read(self, answer: Answer) -> None:
        """Who leads, if anybody; nobody's absence is remembered, as no watch tells its end."""
        name = read_leader(answer.data)[0] if isinstance(answer, Data) else ""
        if name.isdecimal() and int(name) in _IDS:
            self._leader = int(name)
        else:
            self._found_until_ms = None
        self._done()

    def _listed(self, parent: str, answer: Answer) -> None:
        """The brokers' ids have been read."""
        names = answer.names if isinstance(answer, Names) else ()
        if not names and parent == self._paths.coordinators:
            self._found_until_ms = None
            parent = self._paths.broker_ids
            listed = partial(self._listed, parent)
            self._outbox.ask(Children(parent, watch=True), listed)
            return
        for name in names:
            if name.isdecimal():
                self._open += 1
                self._outbox.ask(Get(f"{parent}/{name}"), partial(self._broker_read, int(name)))
        self._done()

    def _broker_read(self, broker_id: int, answer: Answer) -> None:
        """Where a broker listens; one that has gone meanwhile is left out."""
        info = read_broker(broker_id, answer.data) if isinstance(answer, Data) else None
        if info is None:
            self._found_until_ms = None
        else:
            self._found[broker_id] = info
        self._done()

    def _done(self) -> None:
        self._open -= 1
        if not self._open:
            self.brokers, self.coordinator_id = self._found, self._leader
            self.good_until_ms = self._found_until_ms
            self._answer()

    def _answer(self) -> None:
        """Answer everybody who waits."""
        # Who coordinates need not ask who does.
        coordinator_id = self._context.broker_id if self._context.leads else self.coordinator_id
        brokers = tuple(self.brokers[broker_id] for broker_id in sorted(self.brokers))
        waiting, self._waiting = self._waiting, []
        for channel, frame, legacy in waiting:
            message = ConsultResponse(ErrorCode.NONE, coordinator_id, brokers)
            self._server.respond(channel, message, frame, legacy=legacy)


def read_broker(broker_id: int, data: bytes) -> BrokerInfo | None:
    """
    Where a broker listens, by its node's data; None if that cannot be understood.

    >>> read_broker(1, b'{"host": "127.0.0.1", "port": 9192}')
    BrokerInfo(creator_id='127.0.0.1:9192', id=1, host='127.0.0.1', port=9192)
    """
    try:
        said = json.loads(data)
        host, port = said["host"], said["port"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(host, str) or not host or not isinstance(port, int) or not 0 < port < 65536:
        return None
    return BrokerInfo(f"{host}:{port}", broker_id, host, port)
