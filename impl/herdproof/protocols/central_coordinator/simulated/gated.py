"""
The gated world of system B: real cores, and everything between them waits until it is let go.

Each method is one thing that can happen. Coordinators and consumers are the cores that the services
run; frames wait in their connections, offsets' writes and watches in ZooKeeper, and what a core has
queued (a group for its handler, a request behind another) stays there until a method takes it out.
So two cores are seen between any two steps, and go on in any order. Time stands still but for what
a method says is due. Methods take indices (0-based); what cannot happen now raises `Impossible`.

Done at once, where the real thing may take longer: consulting and connecting; the reads of a group
and, at the start, of the topics; the writes of subscriptions, and of offsets that are stored
already (the answer to the write before was lost), with their answers. The answers to Registers and
Commits reach their consumer with the next request; copies of pings are lost, and the ping that
whoever resumes is sent at once comes when the test says. Nothing is sent over a connection that is
broken. Whoever is gone loses its lease once it fetches no more, and no Start is on its way to it. A
session that ZooKeeper ended goes on writing under its epoch: as if what it wrote had been on its
way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial, partialmethod

from herdproof.consuming import subscription
from herdproof.consuming.events import Consumed
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.client.consumer import ConsumerPhase
from herdproof.protocols.central_coordinator.coordinator.groups import Phase
from herdproof.protocols.central_coordinator.events import (
    Closed,
    CommitAsked,
    Connected,
    Deposed,
    Elected,
    Fired,
    Opened,
    Received,
    Subscribe,
    Tick,
)
from herdproof.protocols.central_coordinator.simulated.gates import (
    GROUP,
    NOWHERE,
    CentralParts,
    GatedBroker,
    GatedConnection,
    GatedMember,
    topic_of,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    BrokerInfo,
    Commit,
    CommitResponse,
    ConsultResponse,
    ErrorCode,
    Frame,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.protocols.election.gated import Impossible
from herdproof.zookeeper.operations import (
    Set,
)

ROUNDS = 2
"""Number of times that everything that a broker does by itself is done, in one go."""
HIDDEN = (RegisterResponse, CommitResponse)
"""Frames that reach their consumer with the next request."""


class GatedCentral(CentralParts):
    """A world of brokers, members, and partitions, of which `there` exist from the beginning."""

    # ── Who coordinates ─────────────────────────────────────────────────────────────────────

    def elect(self, b: int) -> None:
        """A broker wins the next epoch."""
        self._expect(self.seat is None and not self.brokers[b].leads, "somebody leads")
        self.epoch += 1
        self.operate(Set(self.paths.election.epoch, str(b).encode()))
        self.seat = self.elected = b
        self.brokers[b].won = self.epoch

    def coordinator_startup(self, b: int) -> None:
        """A broker hears that it was elected, and reads what there is."""
        broker = self.brokers[b]
        self._expect(not broker.leads and broker.won > 0, "it was not elected, or leads already")
        broker.token, broker.is_deposed = broker.won, False
        broker.starts = True
        self.zookeeper.take_events(broker.session)
        self._give(b, Elected(broker.won))
        broker.starts = False
        self.end_leases()

    def lose_session(self, b: int) -> None:
        """Its session is over; it does not know."""
        self._expect(self.seat == b, "it has no session that owns the leader's node")
        self.brokers[b].won = 0
        self.seat = None

    def doubt(self, b: int) -> None:
        """It is not sure that its session lives, and steps down."""
        self._expect(self.brokers[b].leads and self.seat == b, "it has nothing to doubt")
        self._depose(b)

    def step_down(self, b: int) -> None:
        """It hears that it coordinates no more."""
        self._expect(self.brokers[b].leads and self.seat != b, "it need not step down")
        self.brokers[b].won = 0
        self._depose(b)

    def _depose(self, b: int) -> None:
        self.brokers[b].is_deposed = True
        self._give(b, Deposed(self.brokers[b].token))

    def restart(self, b: int) -> None:
        """Its process is killed and starts anew."""
        old = self.brokers[b]
        for connection in [*old.connections.values()]:
            connection.close_far()
        self.zookeeper.lose_connection(old.session)
        self.brokers[b] = GatedBroker(self._core(b), self.zookeeper.open(), old.channels)
        if self.seat == b:
            self.seat = None
        self.end_leases()

    # ── Consumers and topics come and go ────────────────────────────────────────────────────

    def register(self, m: int, b: int, wanted: Collection[int]) -> None:
        """A member, of a subscription to these partitions' topics, connects and registers."""
        member = self.members[m]
        self._expect(member.connection is None, "it is connected")
        core = member.core
        topics = sorted([NOWHERE, *map(topic_of, wanted)])
        core.topic_count = "{" + ", ".join(f'"{topic}": 1' for topic in topics) + "}"
        core.consumption.subscription = subscription.parse(core.topic_count)
        core.consumption.rebuild_threads(topics)
        member.life += 1
        self._register(m, b)

    def resume(self, m: int, b: int) -> None:
        """
        A member learns that its connection is closed, and asks over another one to resume.

        Its coordinator knows by then; and a refusal that was sent to it is not lost.
        """
        connection, connector = self.members[m].connection, self.members[m].core.connector
        self._expect(connector is not None and connector.may_resume(), "it may not consume on")
        assert connection is not None
        answers = (f.message for f in connection.down if isinstance(f.message, RegisterResponse))
        is_refused = any(answer.error_code is not ErrorCode.NONE for answer in answers)
        counts = any(self._booked(m, other) for other in range(len(self.brokers)))
        self._expect(not (is_refused or counts), "it was refused, or is counted as a member")
        self._learn_of_close(m)
        self._register(m, b)

    def _register(self, m: int, b: int) -> None:
        """A member hears that a broker coordinates, connects to it, and sends its Register."""
        member, broker, core = self.members[m], self.brokers[b], self.members[m].core
        if core.phase is ConsumerPhase.IDLE:
            self._tell(m, Subscribe())
        elif core.phase is ConsumerPhase.BACKING_OFF:
            core._deadline_ms = member.now_ms  # no time passes
            self._tell(m, Tick())
        self._tell(m, Connected(core.channels))
        brokers = (BrokerInfo(f"broker{b}:1", b, f"broker{b}", 1),)
        answer = Frame(ConsultResponse(ErrorCode.NONE, b, brokers), correlation_id=1)
        self._tell(m, Received(core.channels, answer))
        broker.channels += 1
        connection = GatedConnection(m, member.life, b, core.channels, broker.channels)
        member.connection = broker.connections[broker.channels] = connection
        self._give(b, Opened(broker.channels))
        self._tell(m, Connected(core.channels))
        self.end_leases()

    def handle_register(self, m: int, b: int) -> None:
        """A broker takes a Register."""
        broker = self.brokers[b]
        self._expect(broker.request is None, "its subscription is written after what is under way")
        self._hear(m, b, Register)
        for registration, member in broker.group.members.items() if broker.group else ():
            connection = broker.connections[member.channel]
            self.registered[registration] = connection.member, connection.life

    handle_resume = handle_register

    def on_lost_connection(self, m: int) -> None:
        """A member learns that its connection is closed; its lease ends before there is another."""
        self._learn_of_close(m)
        member = self.members[m]
        if member.core.kept is not None:
            member.now_ms = member.core.kept.lease_ends_ms
            self._tell(m, Tick())
        self.end_leases()

    def _learn_of_close(self, m: int) -> None:
        """A member learns that its connection is closed."""
        connection = self.members[m].connection
        self._expect(connection is not None and not connection.stands, "its connection stands")
        assert connection is not None
        self._tell(m, Closed(connection.near))
        self._hang_up(self.members[m])

    def end_connections(self, b: int) -> None:
        """Tell whomever a rebalance waits for, by lease, that its connection is closed."""
        group = self.brokers[b].group
        waits = group is not None and (bool(group.members) or group.phase is Phase.STOPPING)
        for registration in [*group.ghosts] if group and waits else ():
            m, life = self.registered[registration]
            connection = self.members[m].connection
            if connection is not None and connection.life == life and not connection.stands:
                self.on_lost_connection(m)

    def time_out(self, m: int) -> None:
        """A member hears nothing until its lease is over."""
        member = self.members[m]
        connector = member.core.connector
        self._expect(self._stands(m) is not None and connector is not None, "it is not connected")
        assert connector is not None
        member.now_ms = max(member.now_ms, connector.lease_ends_ms)
        self._tell(m, Tick())
        self.end_leases()

    def cut(self, m: int) -> None:
        """A member's connection breaks, and neither side knows."""
        connection = self._stands(m)
        self._expect(connection is not None, "it has no connection")
        assert connection is not None
        connection.stands = False
        self.end_leases()

    def handle_closed(self, m: int, b: int) -> None:
        """A broker learns that a member's connection is closed."""
        connection = self._booked(m, b)
        self._expect(connection is not None and not connection.stands, "its connection stands")
        assert connection is not None
        self._give(b, Closed(connection.far))
        self.end_leases()

    def fail(self, m: int, b: int) -> None:
        """A request to a member, and all of its copies, were not answered in time."""
        connection = self._booked(m, b)
        self._expect(connection is not None and connection.stands, "its connection is closed")
        assert connection is not None
        server = self.brokers[b].core.socket_server
        self._expect(server.channels[connection.far].is_busy(), "nothing is asked of it")
        while connection.far in server.channels:
            self._due(b, ("request", connection.far))
        self.end_leases()

    def topic_change_listener(self, b: int, p: int) -> None:
        """A broker hears of a topic that is new, and reads it."""
        broker, path = self.brokers[b], self.paths.topic(topic_of(p))
        for watched in self.zookeeper.take_events(broker.session):
            self._give(b, Fired(watched))
        ask = broker.reads.pop(path, None)
        self._expect(ask is not None, "no watch has fired for it")
        assert ask is not None
        self._answer(b, ask)

    # ── The rebalance ───────────────────────────────────────────────────────────────────────

    def why_necessary(self, b: int) -> str | None:
        """Why a broker would rebalance its group now; None where it would not."""
        gates, group = self.brokers[b].gates, self.brokers[b].group
        if group is None or not group.members:
            return None
        return gates.why_necessary(group, gates.core.rebalancer.plan(group))

    def has_failed(self, b: int) -> bool:
        """True if a rebalance has failed, and is tried again for those who are left."""
        broker = self.brokers[b]
        fails = ("rebalance", GROUP) in broker.core.purgatory.watchers
        return fails and broker.group is not None and bool(broker.group.members)

    def begin_rebalance(self, b: int, *, uneven: bool = False) -> None:
        """A handler takes the group, its shares perhaps uneven; nobody is expected back now."""
        broker = self.brokers[b]
        if ("grace", GROUP) in broker.core.purgatory.watchers:
            self._due(b, ("grace", GROUP))
        broker.gates.uneven = uneven
        self._handle(b)
        broker.gates.uneven = False
        if broker.group is None or broker.group.phase not in (Phase.QUEUED, Phase.WAITING):
            broker.outwaited = False

    def send(self, m: int, b: int, kind: type[Ping | Stop | Start]) -> None:
        """The request that waits for a member is sent."""
        connection = self._booked(m, b)
        self._expect(connection is not None, "it is not in its books")
        assert connection is not None
        self._expect(connection.stands, "its connection is broken")
        broker = self.brokers[b]
        channel = broker.core.socket_server.channels[connection.far]
        self._expect(channel.outstanding is None, "another request is outstanding")
        queue = channel.queue
        self._expect(bool(queue) and isinstance(queue[0].request, kind), "none waits for it")
        broker.gates.sends = connection.far
        self._let(b, partial(broker.gates.send_next, channel))
        broker.gates.sends = None

    send_stop = partialmethod(send, kind=Stop)
    send_start = partialmethod(send, kind=Start)

    def send_ping(self, m: int, b: int) -> None:
        """It is time to ask a member whether it lives."""
        connection = self._booked(m, b)
        self._expect(connection is not None, "it is not in its books")
        assert connection is not None
        broker = self.brokers[b]
        channel = broker.core.socket_server.channels[connection.far]
        self._expect(not channel.is_busy() and not channel.queue, "a request is outstanding")
        scheduler = broker.core.ping_scheduler
        later = [entry for entry in scheduler.queue if entry[1] != connection.far]
        scheduler.queue = [(0, connection.far)]
        broker.gates.sends = connection.far
        self._give(b, Tick())
        broker.gates.sends = None
        scheduler.queue = sorted([*scheduler.queue, *later])

    def pass_barrier(self, b: int, plan: Mapping[int, int] | None = None) -> None:
        """
        A rebalance goes on, if nobody fetches, or if everybody has started.

        By a `plan` (a member for each partition), if one is given, as another assignor's.
        """
        broker = self.brokers[b]
        group = broker.group
        self._expect(group is not None, "nobody is in the group")
        assert group is not None
        gates, phase = broker.gates, group.phase
        if phase is Phase.STOPPING:
            self._expect(broker.request is None, "another write is under way")
        check = gates.check_stopped if phase is Phase.STOPPING else gates.check_started
        gates.passes = True
        if plan is not None:
            names = {
                c.member: channel.member.registration
                for c, channel in self.booked(b)
                if channel.member is not None
            }
            gates.planned = {(topic_of(p), "0"): names[m] for p, m in plan.items() if m in names}
        self._let(b, partial(check, group))
        gates.passes, gates.planned = False, None

    def flush_offsets(self, b: int) -> None:
        """The offsets that were told are sent to ZooKeeper."""
        broker = self.brokers[b]
        self._expect(broker.request is None, "another write is under way")
        self._expect(("flush", 0) in broker.core.purgatory.watchers, "none are due")
        self._due(b, ("flush", 0))

    def serve(self, b: int, action: str) -> None:
        """ZooKeeper does what a broker has sent, unless the fence holds that off."""
        request = self._request(b, action)
        self._expect(not self._is_fenced_off(b, request), "the fence refuses it")
        request.answer = self._perform(self.brokers[b], request.ask.operation)

    serve_owners = partialmethod(serve, action="write_owners")
    serve_offsets = partialmethod(serve, action="flush_offsets")

    def refuse_stale(self, b: int) -> None:
        """ZooKeeper refuses what a broker of a past epoch has sent."""
        request = self._request(b)
        self._expect(request.answer is None, "it was served")
        self._expect(self._is_fenced_off(b, request), "no fence refuses it")
        request.answer = self._perform(self.brokers[b], request.ask.operation)

    def answered(self, b: int) -> None:
        """A broker hears what came of its write."""
        answer = self._request(b).answer
        self._expect(answer is not None, "it was not served yet")
        assert answer is not None
        self._hears(b, answer)

    def lose_answer(self, b: int) -> None:
        """A broker will not hear what came of its write; what it then doubts it reads anew."""
        self._lose(b)
        self._read_again(b)

    def _read_again(self, b: int) -> None:
        group = self.brokers[b].group
        if group is not None and not group.loaded:  # it may register others then, as before
            self._let(b, partial(self.brokers[b].core.membership.recovery.load, group))

    def fail_rebalance(self, b: int) -> None:
        """
        A rebalance fails: before its owners are written, by a connection to ZooKeeper that is lost.

        While Starts are out it fails as where another member is lost; where nobody is left while
        Stops are, as where the last offsets' write is lost.
        """
        broker, group = self.brokers[b], self.brokers[b].group
        self._expect(group is not None, "nobody is in the group")
        assert group is not None
        runs = group.phase in (Phase.STOPPING, Phase.STARTING)
        if runs and (group.phase is Phase.STARTING or not group.members):
            if group.phase is Phase.STOPPING:
                group.phase = Phase.FLUSHING
            self._let(b, partial(broker.core.rebalancer.fail, group, "something was lost"))
            return
        may = group.phase is Phase.STOPPING and not group.waiting and not group.ghosts
        self._expect(may, "its writes are not due")
        self._expect(broker.request is None, "a write is under way")
        self.pass_barrier(b)
        while broker.request:
            self._lose(b)
        self._read_again(b)

    def requeue(self, b: int) -> None:
        """The back-off of a rebalance that failed is over."""
        self._expect(self.has_failed(b), "no rebalance has failed")
        self._due(b, ("rebalance", GROUP))

    # ── What is heard ───────────────────────────────────────────────────────────────────────

    def handle_request(self, m: int, kind: type[Ping | Stop | Start]) -> None:
        """A member takes the next request, and the answers before it."""
        connection = self.members[m].connection
        self._expect(connection is not None, "it has no connection")
        assert connection is not None
        shown = [f for f in connection.down if not isinstance(f.message, HIDDEN)]
        self._expect(bool(shown) and isinstance(shown[0].message, kind), "no such request came")
        while True:
            frame = connection.down.popleft()
            self._tell(m, Received(connection.near, frame))
            if frame is shown[0]:
                return

    def handle_response(
        self, m: int, b: int, kind: type[PingResponse | StopResponse | StartResponse | Commit]
    ) -> None:
        """A broker takes the next answer, or commit, of a member."""
        self._expect(self._booked(m, b) is not None, "it is not in its books")
        self._hear(m, b, kind)

    handle_ping = partialmethod(handle_request, kind=Ping)
    handle_stop = partialmethod(handle_request, kind=Stop)
    handle_start = partialmethod(handle_request, kind=Start)
    handle_ping_response = partialmethod(handle_response, kind=PingResponse)
    handle_stop_response = partialmethod(handle_response, kind=StopResponse)
    handle_start_response = partialmethod(handle_response, kind=StartResponse)
    handle_commit = partialmethod(handle_response, kind=Commit)

    # ── Records and offsets ─────────────────────────────────────────────────────────────────

    def produce(self, p: int) -> None:
        """A record is appended."""
        self.ends[p] += 1

    def consume(self, m: int, p: int) -> None:
        """The application of a member finishes with its next record."""
        member = self.members[m]
        self._expect(member.is_fetching(p), "it does not fetch it")
        then = member.position(p) + 1
        self._expect(then <= self.ends[p], "there is no record")
        generation = member.core.consumption.generation
        self._tell(m, Consumed(Offset(topic_of(p), "0", then), generation))
        self.finished[p] = max(self.finished[p], then)

    def commit(self, m: int) -> None:
        """The user of a member commits what it has consumed."""
        member = self.members[m]
        self._expect(self._stands(m) is not None, "its connection is broken")
        self._expect(any(map(member.is_fetching, self.partitions)), "it fetches nothing")
        is_told = member.core.phase is ConsumerPhase.REGISTERED
        self._expect(is_told, "it does not know yet that it is a member again")
        member.commits += 1
        self._tell(m, CommitAsked(member.commits))

    # ── By itself ───────────────────────────────────────────────────────────────────────────

    def go_on(self, *, steps_down: bool = True) -> None:
        """Every broker goes on, as far as it can without an answer of a member."""
        for _ in range(ROUNDS):
            for b, broker in enumerate(self.brokers):
                if steps_down and broker.leads and self.seat != b:
                    self.step_down(b)
            for b, broker in enumerate(self.brokers):
                if broker.coordinates:
                    self._go_on(b)

    def _go_on(self, b: int) -> None:
        self.end_connections(b)
        if self.has_failed(b):
            self.requeue(b)
        self.begin_rebalance(b)
        for connection, channel in [*self.booked(b)]:
            if connection.stands and channel.queue and channel.outstanding is None:
                self.send(connection.member, b, type(channel.queue[0].request))
        for act in (self.flush_offsets, self._write_on, self.pass_barrier, self._write_on):
            with suppress(Impossible):
                act(b)

    def _write_on(self, b: int) -> None:
        """Do or refuse what is on its way to ZooKeeper, and let its sender hear of it."""
        for act in (self.serve_owners, self.serve_offsets, self.refuse_stale):
            with suppress(Impossible):
                act(b)
        self.answered(b)

    # ── What it looks like ──────────────────────────────────────────────────────────────────

    def data(self, path: str) -> bytes | None:
        """The data of a node; None where none stands."""
        node = self.zookeeper.snapshot().nodes.get(path)
        return None if node is None else node.data


__all__ = ["GROUP", "GatedBroker", "GatedCentral", "GatedConnection", "GatedMember", "topic_of"]
