"""
Brokers elect one coordinator through an ephemeral node: the verified protocol.

Every broker that stands asks ZooKeeper for the leader's node (`LOOK`, which leaves a one-shot
watch). Where nothing stands it reads the version of the persistent epoch node (`READ`) and then, in
one transaction, counts the epoch up and creates the leader's node (`CREATE`); the transaction is
refused if somebody else was faster. The new epoch is the fencing token: every later write of the
leader is a transaction that checks the epoch node's version first, so that whoever leads on after
its time is harmless. A broker that finds a node of its own session that it does not know of (the
creation was done, the reply was lost) reads the epoch that it holds from the node's data
(`RECALL`).

What ZooKeeper knows (`alive`, `holder`, `epoch`, `watch`), what is true of the network
(`connected`), and what the broker has been told so far (`link`, `leads`, `call`) are kept apart,
because every flaw lives between them. An elector's application writes with the epoch that it was
given (`token`), at any time, even after the elector has learnt that it leads no more: that is what
fencing is for.

Source: system B, `002` (ZkElection, handleNewSession), as PROTOCOLS.md rules, section Election.

Assumed: ZooKeeper is linearizable for writes, sends each session its answers and watch events in
one order, and ends a session's ephemeral nodes with the session; nobody else writes the epoch node.
Not modelled: the creation of the epoch node, ACLs, more than one call of an elector under way,
clocks (a time-out is an event that may happen at any time).
"""

from __future__ import annotations

from enum import Enum

from herdspec import Nat, Sort, Spec, action, command, each, fault, require
from herdspec.protocols.election.accepted_mutants import (
    SURVIVORS as SURVIVORS,  # `mutate` looks here
)


class Broker(Sort):
    """A broker that hosts a coordinator instance."""


class Link(Enum):
    """State of a client's session, as far as the client knows."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class Call(Enum):
    """Call of an elector to ZooKeeper that it has not yet finished with."""

    NONE = "none"
    LOOK = "look"
    RECALL = "recall"
    READ = "read"
    CREATE = "create"
    DELETE = "delete"


class Answer(Enum):
    """Answer to the call under way, as it lies in the inbox."""

    NONE = "none"
    ABSENT = "absent"
    OTHERS = "others"
    MINE = "mine"
    EPOCH = "epoch"
    CREATED = "created"
    DELETED = "deleted"
    REFUSED = "refused"


class View(Enum):
    """View that a lagging server still has of the leader's node, seen from one session."""

    ABSENT = "absent"
    OTHERS = "others"
    MINE = "mine"


class Election(Spec):
    """Brokers elect one coordinator through an ephemeral node and an epoch."""

    # What ZooKeeper knows.
    holder: Broker | None = None  # the broker named in the leader's node, while it stands
    orphan: bool = False  # the node belongs to a former session of its holder
    epoch: Nat = 0  # the data version of the persistent epoch node
    alive: dict[Broker, bool] = each(True)  # the broker's present session has not expired
    watch: dict[Broker, bool] = each(False)  # a one-shot watch is set on the leader's node
    behind: dict[Broker, bool] = each(False)  # the server that the broker is connected to lags
    view: dict[Broker, View] = each(View.ABSENT)  # while it lags: what it still shows
    view_epoch: dict[Broker, Nat] = each(0)  # while it lags: the epoch that it still shows

    # What is true of the connection, and what waits in the broker's inbox.
    connected: dict[Broker, bool] = each(True)
    answer: dict[Broker, Answer] = each(Answer.NONE)
    number: dict[Broker, Nat] = each(0)  # the epoch that the call or its answer carries

    # What the elector knows.
    link: dict[Broker, Link] = each(Link.CONNECTED)  # what it has been told of its session
    stands: dict[Broker, bool] = each(False)  # it takes part in the election
    leads: dict[Broker, bool] = each(False)  # it believes that it leads
    token: dict[Broker, Nat] = each(0)  # the last epoch that it led in; its application has it
    call: dict[Broker, Call] = each(Call.NONE)
    due: dict[Broker, bool] = each(False)  # a watch has fired, or there is a reason to look again
    paused: dict[Broker, bool] = each(False)

    # For the properties only; no guard reads them.
    elected: Broker | None = None  # who won the present epoch
    stale_write_accepted: bool = False  # a write of somebody else was accepted

    # ── What users ask for ──────────────────────────────────────────────────────────────────

    @action(kind=command)
    def stand(self, b: Broker) -> None:
        """{b} stands for election."""
        require(not self.paused[b] and not self.stands[b])
        self.stands[b] = True
        if self.link[b] == Link.CONNECTED:
            if self.call[b] == Call.NONE:
                self.ask(b, Call.LOOK)
            else:
                self.due[b] = True

    @action(kind=command, disturbs=True)
    def resign(self, b: Broker) -> None:
        """{b} resigns, and deletes its node if it leads."""
        require(not self.paused[b] and self.stands[b])
        self.stands[b] = False
        self.due[b] = False
        if self.leads[b] and self.call[b] == Call.NONE:
            self.ask(b, Call.DELETE)
        self.leads[b] = False

    @action(kind=command)
    def write(self, b: Broker) -> None:
        """{b} writes to ZooKeeper under the last epoch that it led in."""
        require(not self.paused[b] and self.connected[b] and self.token[b] > 0)
        if self.accepts_write(b) and self.elected != b:
            self.stale_write_accepted = True

    # ── What the elector does with what its inbox holds ─────────────────────────────────────

    @action
    def look(self, b: Broker) -> None:
        """{b} asks who leads, because a watch has fired or it began to stand in the meantime."""
        require(not self.paused[b] and self.due[b] and self.call[b] == Call.NONE)
        self.ask(b, Call.LOOK)

    @action
    def handle_look(self, b: Broker) -> None:
        """{b} learns whether a leader's node stands, and whether it is its own."""
        require(not self.paused[b] and self.call[b] == Call.LOOK)
        require(self.answer[b] in (Answer.ABSENT, Answer.OTHERS, Answer.MINE))
        if self.answer[b] == Answer.MINE:
            if self.leads[b]:
                self.finish(b)
            else:
                self.ask(b, Call.RECALL)
        elif self.answer[b] == Answer.ABSENT and self.stands[b]:
            self.leads[b] = False
            self.ask(b, Call.READ)
        else:
            self.leads[b] = False
            self.finish(b)

    @action
    def handle_recall(self, b: Broker) -> None:
        """{b} learns the epoch of a node that is its own."""
        require(not self.paused[b] and self.call[b] == Call.RECALL)
        require(self.answer[b] in (Answer.ABSENT, Answer.OTHERS, Answer.MINE))
        if self.answer[b] == Answer.MINE:
            self.hold(b)
        else:
            self.look_again(b)

    @action
    def handle_read(self, b: Broker) -> None:
        """{b} learns the epoch that it would have to follow."""
        require(not self.paused[b] and self.call[b] == Call.READ and self.answer[b] == Answer.EPOCH)
        if self.stands[b]:
            self.ask(b, Call.CREATE)  # the number stays: the version that must still hold
        else:
            self.finish(b)

    @action
    def handle_create(self, b: Broker) -> None:
        """{b} learns whether it has won."""
        require(not self.paused[b] and self.call[b] == Call.CREATE)
        require(self.answer[b] in (Answer.CREATED, Answer.REFUSED))
        if self.answer[b] == Answer.CREATED:
            self.hold(b)
        else:
            self.look_again(b)

    @action
    def handle_delete(self, b: Broker) -> None:
        """{b} learns that no node of its epoch stands any more."""
        require(not self.paused[b] and self.call[b] == Call.DELETE)
        require(self.answer[b] in (Answer.DELETED, Answer.REFUSED))
        self.finish(b)

    @action
    def handle_suspended(self, b: Broker) -> None:
        """{b} learns that its connection is lost, and stops leading: it cannot be sure."""
        require(not self.paused[b] and self.link[b] == Link.CONNECTED and not self.connected[b])
        self.link[b] = Link.SUSPENDED
        self.leads[b] = False
        self.due[b] = False
        self.finish(b)  # a call under way may or may not have been done: look when reconnected

    @action
    def handle_reconnected(self, b: Broker) -> None:
        """{b}'s session finds a server again in time; whatever was in doubt, {b} will look."""
        require(not self.paused[b] and self.link[b] == Link.SUSPENDED and self.alive[b])
        self.connected[b] = True
        self.sync(b)
        self.link[b] = Link.CONNECTED
        self.ask(b, Call.LOOK if self.stands[b] else Call.RECALL)

    @action
    def handle_lost(self, b: Broker) -> None:
        """{b} learns that its session has expired."""
        require(not self.paused[b] and self.link[b] == Link.SUSPENDED and not self.alive[b])
        self.link[b] = Link.LOST

    @action
    def handle_new_session(self, b: Broker) -> None:
        """{b} has a new session."""
        require(not self.paused[b] and self.link[b] == Link.LOST)
        self.alive[b] = True
        self.connected[b] = True
        self.link[b] = Link.CONNECTED
        self.look_again(b)

    # ── What ZooKeeper does with a call ─────────────────────────────────────────────────────

    @action
    def serve_look(self, b: Broker) -> None:
        """ZooKeeper tells {b} whether a leader's node stands, and watches it."""
        self.reaches(b, Call.LOOK)
        self.answer[b] = self.shown(b)
        self.watch[b] = True

    @action
    def serve_recall(self, b: Broker) -> None:
        """ZooKeeper shows {b} the data of the leader's node."""
        self.reaches(b, Call.RECALL)
        self.answer[b] = self.shown(b)
        if self.shown(b) == Answer.MINE:
            # The data names the epoch that the node's own transaction counted up to.
            self.number[b] = self.shown_epoch(b)

    @action
    def serve_read(self, b: Broker) -> None:
        """ZooKeeper tells {b} the version of the epoch node."""
        self.reaches(b, Call.READ)
        self.answer[b] = Answer.EPOCH
        self.number[b] = self.shown_epoch(b)

    @action
    def serve_create(self, b: Broker) -> None:
        """ZooKeeper counts the epoch up and creates {b}'s node, or refuses both."""
        self.reaches(b, Call.CREATE)
        require(not self.behind[b])
        if self.accepts_create(b):
            self.create(b)
            self.answer[b] = Answer.CREATED
            self.number[b] = self.epoch
        else:
            self.answer[b] = Answer.REFUSED
            self.number[b] = 0

    @action
    def serve_delete(self, b: Broker) -> None:
        """ZooKeeper deletes the leader's node if {b}'s epoch is the present one."""
        self.reaches(b, Call.DELETE)
        require(not self.behind[b])
        if self.accepts_delete(b):
            self.vacate()
            self.answer[b] = Answer.DELETED
        else:
            self.answer[b] = Answer.REFUSED

    @action
    def catch_up(self, b: Broker) -> None:
        """The server of {b} catches up, and tells what {b} watches."""
        require(self.behind[b])
        changed = self.view_epoch[b] != self.epoch or (
            (self.view[b] == View.ABSENT) != (self.holder is None)
        )
        if self.watch[b] and changed:
            self.watch[b] = False
            self.due[b] = self.due[b] or self.heeds_watch(b)
        self.keep_up(b)

    @action
    def expire_orphan(self) -> None:
        """The former session that owns the leader's node expires."""
        require(self.orphan)
        self.vacate()

    # ── Faults ──────────────────────────────────────────────────────────────────────────────

    @action(kind=fault)
    def cut(self, b: Broker) -> None:
        """The connection of {b} breaks; a call under way is not done, and has no answer."""
        require(self.connected[b])
        self.disconnect(b)

    @action(kind=fault)
    def swallow_create(self, b: Broker) -> None:
        """{b}'s node is created, and the connection breaks before the reply."""
        self.reaches(b, Call.CREATE)
        require(self.accepts_create(b))
        self.disconnect(b)
        self.create(b)

    @action(kind=fault)
    def swallow_delete(self, b: Broker) -> None:
        """{b}'s node is deleted, and the connection breaks before the reply."""
        self.reaches(b, Call.DELETE)
        require(self.accepts_delete(b))
        self.disconnect(b)
        self.vacate()

    @action(kind=fault)
    def expire(self, b: Broker) -> None:
        """The session of {b} expires at the server, its connection gone; {b} does not know."""
        require(self.alive[b])
        self.alive[b] = False
        self.disconnect(b)
        self.keep_up(b)
        if self.holder == b and not self.orphan:
            self.vacate()

    @action(kind=fault)
    def expire_told(self, b: Broker) -> None:
        """The session of {b} expires; that its node is gone still reaches {b}, and no more."""
        # ZooKeeper ends a session's nodes first, which fires its own watches, then its connection.
        require(self.holder == b and not self.orphan and self.watch[b] and not self.behind[b])
        self.vacate()
        self.alive[b] = False
        self.disconnect(b)

    @action(kind=fault)
    def restart(self, b: Broker) -> None:
        """{b} is killed and comes back with a new session; its old one has yet to expire."""
        if self.holder == b:
            self.orphan = True
        self.alive[b] = True
        self.watch[b] = False
        self.keep_up(b)
        self.connected[b] = True
        self.finish(b)
        self.link[b] = Link.CONNECTED
        self.stands[b] = False
        self.leads[b] = False
        self.token[b] = 0
        self.due[b] = False
        self.paused[b] = False

    @action(kind=fault)
    def fall_behind(self, b: Broker) -> None:
        """The server that {b} is connected to begins to lag."""
        require(self.connected[b] and not self.behind[b])
        if self.holder is None:
            self.view[b] = View.ABSENT
        elif self.holder == b and not self.orphan:
            self.view[b] = View.MINE
        else:
            self.view[b] = View.OTHERS
        self.view_epoch[b] = self.epoch
        self.behind[b] = True

    @action(kind=fault)
    def pause(self, b: Broker) -> None:
        """{b} pauses."""
        require(not self.paused[b])
        self.paused[b] = True

    @action
    def resume(self, b: Broker) -> None:
        """{b} wakes up."""
        require(self.paused[b])
        self.paused[b] = False

    # ── What the drafts do otherwise ────────────────────────────────────────────────────────

    def accepts_write(self, b: Broker) -> bool:
        """A write checks the epoch node's version."""
        return self.token[b] == self.epoch

    def accepts_create(self, b: Broker) -> bool:
        """Nothing stands, and nobody has won since the epoch was read."""
        return self.holder is None and self.number[b] == self.epoch

    def accepts_delete(self, b: Broker) -> bool:
        """Something stands, and it is of this broker's epoch."""
        return self.holder is not None and self.token[b] == self.epoch

    def is_mine(self, b: Broker) -> bool:
        """The node's ephemeral owner is the broker's present session."""
        return self.holder == b and not self.orphan

    # ── Parts of the actions ────────────────────────────────────────────────────────────────

    def ask(self, b: Broker, call: Call) -> None:
        """Send a call."""
        if call == Call.LOOK:
            self.due[b] = False
        self.call[b] = call
        self.answer[b] = Answer.NONE
        if call != Call.CREATE:
            self.number[b] = 0

    def finish(self, b: Broker) -> None:
        """Be done with a call."""
        self.call[b] = Call.NONE
        self.answer[b] = Answer.NONE
        self.number[b] = 0

    def look_again(self, b: Broker) -> None:
        """Be done with a call, and ask who leads if this broker stands."""
        if self.stands[b]:
            self.ask(b, Call.LOOK)
        else:
            self.finish(b)

    def heeds_watch(self, b: Broker) -> bool:
        """True if a watch that fires now will make this broker look (answers come in order)."""
        about_to_see = self.call[b] == Call.LOOK and self.answer[b] == Answer.NONE
        return self.stands[b] and not about_to_see

    def hold(self, b: Broker) -> None:
        """A node of this broker stands: lead, or delete it if the broker has resigned."""
        self.token[b] = self.number[b]
        self.leads[b] = self.stands[b]
        if self.stands[b]:
            self.finish(b)
        else:
            self.ask(b, Call.DELETE)

    def reaches(self, b: Broker, call: Call) -> None:
        """This call is under way, over a connection that stands."""
        require(self.call[b] == call and self.answer[b] == Answer.NONE)
        require(self.connected[b])

    def shown(self, b: Broker) -> Answer:
        """The leader's node, as the server of this broker shows it."""
        if self.behind[b]:
            if self.view[b] == View.MINE:
                return Answer.MINE
            return Answer.ABSENT if self.view[b] == View.ABSENT else Answer.OTHERS
        if self.holder is None:
            return Answer.ABSENT
        return Answer.MINE if self.is_mine(b) else Answer.OTHERS

    def shown_epoch(self, b: Broker) -> Nat:
        """The epoch, as the server of this broker shows it."""
        return self.view_epoch[b] if self.behind[b] else self.epoch

    def create(self, b: Broker) -> None:
        """The epoch and the leader's node, in one transaction."""
        self.epoch = self.epoch + 1
        self.holder = b
        self.orphan = False
        self.elected = b
        self.fire()

    def vacate(self) -> None:
        """The leader's node goes."""
        self.holder = None
        self.orphan = False
        self.fire()

    def fire(self) -> None:
        """Every watch at a server that is up to date fires, once."""
        for c in Broker:
            if self.watch[c] and not self.behind[c]:
                self.watch[c] = False
                self.due[c] = self.due[c] or self.heeds_watch(c)

    def disconnect(self, b: Broker) -> None:
        """The connection is gone, and its watches with it."""
        self.connected[b] = False
        self.watch[b] = False

    def sync(self, b: Broker) -> None:
        """Before the first read of a new connection, its server catches up with the ensemble."""
        self.keep_up(b)

    def keep_up(self, b: Broker) -> None:
        """The broker's server shows what is true."""
        self.behind[b] = False
        self.view[b] = View.ABSENT
        self.view_epoch[b] = 0
