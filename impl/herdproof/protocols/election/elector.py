"""
The elector's core: one broker's part in the election, with no socket, clock or thread inside.

It takes one event and answers with what must now happen, in order. Its shell (`shell.py`) owes it:

1. events one at a time, in the order in which ZooKeeper's client told them (a watch event
   before the answers to later reads: `client.py` keeps that order);
2. every `AskZooKeeper` submitted, and its answer brought back as `OperationAnswered` with the same
   call number;
3. after a `Wake`, a `Woken` behind whatever waits already;
4. `LeadershipWon` and `LeadershipLost` told to whoever owns the election, and every later write of
   theirs made by `fenced`, so that ZooKeeper refuses it once another epoch has begun.

A call whose connection is lost gets no answer that counts: the broker looks anew when reconnected.

Source: system B's `ZkElection` as PROTOCOLS.md rules (section Election); the spec of the same
protocol is `herdspec.protocols.election.spec`, whose actions are named as the methods here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from herdproof.zookeeper.operations import (
    ANY_VERSION,
    Answer,
    Changed,
    Check,
    Create,
    Data,
    Delete,
    Done,
    Exists,
    Found,
    Get,
    Link,
    Multi,
    Operation,
    Refusal,
    Set,
    Why,
)


@dataclass(frozen=True)
class ElectionPaths:
    """Where the election keeps its two nodes; no consumer group's name can collide with them."""

    leader: str = "/herdproof/election/leader"
    """Ephemeral; its data is the broker's id and its epoch."""
    epoch: str = "/herdproof/election/epoch"
    """Persistent; its data version is the epoch, its data the broker that won it."""


NOBODY_KNOWS = frozenset({Why.CONNECTION_LOSS, Why.SESSION_EXPIRED})
"""Refusals that leave open whether the call was done."""


# ── Events ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Stand:
    """The owner wants this broker to take part."""


@dataclass(frozen=True, slots=True)
class Resign:
    """The owner wants this broker out, and its node deleted."""


@dataclass(frozen=True, slots=True)
class LinkChanged:
    """The client's session is connected, suspended or lost; `session` is the one it has now."""

    link: Link
    session: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """A watch on the leader's node fired."""


@dataclass(frozen=True, slots=True)
class Woken:
    """The end of what was in the inbox before this event: it has been taken; see `Wake`."""


@dataclass(frozen=True, slots=True)
class OperationAnswered:
    """ZooKeeper answered a call."""

    number: int
    answer: Answer


Event = Stand | Resign | LinkChanged | LeaderChanged | Woken | OperationAnswered


class Call(Enum):
    """A call that the elector has made to ZooKeeper and not yet finished with."""

    NONE = "none"
    LOOK = "look"
    """Does a leader's node stand, and is it mine? Leaves a watch."""
    RECALL = "recall"
    """The node is mine: in which epoch?"""
    READ = "read"
    """Nothing stands: which epoch would I follow?"""
    CREATE = "create"
    """Count the epoch up and create the node, in one transaction."""
    DELETE = "delete"
    """Resigned: delete the node of my epoch."""


# ── Effects ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AskZooKeeper:
    """Submit an operation to ZooKeeper."""

    number: int
    operation: Operation


@dataclass(frozen=True, slots=True)
class Wake:
    """Put a `Woken` into the inbox."""


@dataclass(frozen=True, slots=True)
class LeadershipWon:
    """This broker leads, in this epoch: its fencing token."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """This broker leads no more, or cannot be sure that it does."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ElectionStep:
    """
    A step that the core takes, before what carries it out; nobody has to do anything about it.

    What the spec has, it has under the same name. `handle_watch`, `handle_wake`, `handle_late` and
    `ignore` are none of its steps: of these, no more becomes than that a look is due.
    """

    action: str
    call: Call = Call.NONE
    """The call under way whose answer is handled."""
    number: int = 0
    """The call that was answered, whether it is under way or not."""
    answer: Answer | None = None


Effect = AskZooKeeper | Wake | LeadershipWon | LeadershipLost | ElectionStep


def fenced(
    paths: ElectionPaths, epoch: int, operations: tuple[Create | Set | Delete | Check, ...]
) -> Multi:
    """These writes as one transaction that ZooKeeper refuses unless `epoch` is the present one."""
    return Multi((Check(paths.epoch, epoch), *operations))


class Elector:
    """One broker's elector; `leads` and `token` may be read at any time."""

    def __init__(self, broker: str, paths: ElectionPaths = ElectionPaths()) -> None:
        self.broker = broker
        self.paths = paths
        self.link = Link.LOST
        self.session = 0
        self.stands = False
        self.leads = False
        self.token = 0
        self.over: int | None = None
        """The epoch under which this broker's own deletion was last refused; it is over."""
        self.call = Call.NONE
        self.due = False
        self.number = 0
        self.expected = 0

    def receive(self, event: Event) -> list[Effect]:
        """Take one event; answer with the step that it is, and what must now happen, in order."""
        match event:
            case Stand() if not self.stands:
                return [ElectionStep("stand"), *self.stand()]
            case Resign() if self.stands:
                return [ElectionStep("resign"), *self.resign()]
            case LinkChanged(link=Link.CONNECTED, session=session) if session != self.session:
                return [ElectionStep("handle_new_session"), *self.handle_new_session(session)]
            case LinkChanged(link=Link.CONNECTED) if self.link is not Link.CONNECTED:
                return [ElectionStep("handle_reconnected"), *self.handle_reconnected()]
            case LinkChanged(link=Link.SUSPENDED):
                return [ElectionStep("handle_suspended"), *self.handle_suspended()]
            case LinkChanged(link=Link.LOST):
                return [ElectionStep("handle_lost"), *self.handle_lost()]
            case Stand() | Resign() | LinkChanged():
                return [ElectionStep("ignore")]
            case LeaderChanged():
                return self.handle_watch()
            case Woken():
                return self.look()
            case OperationAnswered(number=number, answer=answer):
                return self.handle_answer(number, answer)
            case _:
                assert_never(event)

    def fenced(self, *operations: Create | Set | Delete | Check, epoch: int | None = None) -> Multi:
        """The owner's writes under this epoch; else under the last that this broker led in."""
        return fenced(self.paths, self.token if epoch is None else epoch, operations)

    # ── What the owner asks for ─────────────────────────────────────────────────────────────

    def stand(self) -> list[Effect]:
        """Take part; at once if no call is under way."""
        self.stands = True
        if self.link is not Link.CONNECTED:
            return []
        if self.call is Call.NONE:
            return self._look()
        self.due = True
        return []

    def resign(self) -> list[Effect]:
        """Take part no more; delete the node if this broker leads."""
        self.stands = self.due = False
        deletes = self.leads and self.call is Call.NONE
        effects = self._step_down()
        return effects + self._delete() if deletes else effects

    # ── Sessions ────────────────────────────────────────────────────────────────────────────

    def handle_new_session(self, session: int) -> list[Effect]:
        """A new session has begun: nothing of the old one counts any more."""
        self.link, self.session = Link.CONNECTED, session
        return self._step_down() + self._look_again()

    def handle_reconnected(self) -> list[Effect]:
        """A server was found, and the session lives on."""
        self.link = Link.CONNECTED
        return self._look() if self.stands else self._recall()

    def handle_suspended(self) -> list[Effect]:
        """The connection is lost: a call may or may not be done, and who leads is unsure."""
        self._cut_off(Link.SUSPENDED)
        return self._step_down()

    def handle_lost(self) -> list[Effect]:
        """The session has expired, and its node with it."""
        self._cut_off(Link.LOST)
        return self._step_down()

    # ── Watches and answers ─────────────────────────────────────────────────────────────────

    def handle_watch(self) -> list[Effect]:
        """The node changed: look, unless a look is under way that will see it."""
        if self.stands and self.link is Link.CONNECTED and self.call is not Call.LOOK:
            if self.call is Call.NONE:
                return [ElectionStep("look"), *self._look()]
            self.due = True
        return [ElectionStep("handle_watch")]

    def look(self) -> list[Effect]:
        """Look, if there is still a reason to."""
        ready = self.due and self.call is Call.NONE and self.link is Link.CONNECTED
        return [ElectionStep("look"), *self._look()] if ready else [ElectionStep("handle_wake")]

    def handle_answer(self, number: int, answer: Answer) -> list[Effect]:
        """Go on with the call under way, if it is that which was answered."""
        if self.call is Call.NONE or number != self.number:
            return [ElectionStep("handle_late", number=number)]
        if isinstance(answer, Refusal) and answer.why in NOBODY_KNOWS:
            # That the link is lost is told next, and settles it.
            return [ElectionStep("handle_late", self.call, number, answer)]
        handle: dict[Call, Callable[[Answer], list[Effect]]] = {
            Call.LOOK: self.handle_look,
            Call.RECALL: self.handle_recall,
            Call.READ: self.handle_read,
            Call.CREATE: self.handle_create,
            Call.DELETE: self.handle_delete,
        }
        step = ElectionStep(f"handle_{self.call.value}", self.call, number, answer)
        return [step, *handle[self.call](answer)]

    def handle_look(self, answer: Answer) -> list[Effect]:
        """Does a leader's node stand, and is it this session's?"""
        stat = answer.stat if isinstance(answer, Found) else None
        if stat is None:
            return self._step_down() + (self._read() if self.stands else self._finish())
        if stat.ephemeral_owner == self.session:
            return self._finish() if self.leads else self._recall()
        return self._step_down() + self._finish()

    def handle_recall(self, answer: Answer) -> list[Effect]:
        """If the node is this session's, its data names the epoch that this broker holds."""
        if isinstance(answer, Data) and answer.stat.ephemeral_owner == self.session:
            _, epoch = read_leader(answer.data)
            return self._give_up() if epoch == self.over else self._hold(epoch)
        return self._look_again()

    def handle_read(self, answer: Answer) -> list[Effect]:
        """The version of the epoch node is what the creation must follow."""
        if not isinstance(answer, Data):
            raise AssertionError(f"the epoch node {self.paths.epoch} is gone: {answer}")
        return self._create(answer.stat.version) if self.stands else self._finish()

    def handle_create(self, answer: Answer) -> list[Effect]:
        """Won, or somebody was faster."""
        if not isinstance(answer, Done):
            return self._look_again()
        return self._hold(self.won(answer))

    def won(self, answer: Done) -> int:
        """The epoch that an answered creation has begun."""
        counted = answer.answers[0]
        assert isinstance(counted, Changed), f"the epoch was to be counted up, not {counted}"
        return counted.stat.version

    def handle_delete(self, answer: Answer) -> list[Effect]:
        """
        Done, or refused because the epoch is over: either way nothing of this broker stands.

        Unless somebody edited the epoch's node by hand: see `_give_up`.
        """
        if answer == Refusal(Why.BAD_VERSION, 0):
            self.over = self.token
        return self._finish()

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _cut_off(self, link: Link) -> None:
        """The connection is gone: no call is answered any more, and no look is due."""
        self.link = link
        self.due = False
        self.call = Call.NONE

    def _ask(self, call: Call, operation: Operation) -> list[Effect]:
        self.call = call
        self.number += 1
        return [AskZooKeeper(self.number, operation)]

    def _look(self) -> list[Effect]:
        self.due = False
        return self._ask(Call.LOOK, Exists(self.paths.leader, watch=True))

    def _recall(self) -> list[Effect]:
        return self._ask(Call.RECALL, Get(self.paths.leader))

    def _read(self) -> list[Effect]:
        return self._ask(Call.READ, Get(self.paths.epoch))

    def _create(self, version: int) -> list[Effect]:
        self.expected = version
        return self._ask(Call.CREATE, Multi((self._count_up(version), self._node(version + 1))))

    def _count_up(self, version: int) -> Set:
        """Begin the epoch that follows this one, unless another broker has."""
        return Set(self.paths.epoch, self.broker.encode(), version)

    def _node(self, epoch: int) -> Create:
        """Take the leader's place in this epoch."""
        return Create(self.paths.leader, leader_data(self.broker, epoch), ephemeral=True)

    def _delete(self) -> list[Effect]:
        node = Delete(self.paths.leader, ANY_VERSION)
        return self._ask(Call.DELETE, fenced(self.paths, self.token, (node,)))

    def _finish(self) -> list[Effect]:
        self.call = Call.NONE
        return [Wake()] if self.due else []

    def _look_again(self) -> list[Effect]:
        return self._look() if self.stands else self._finish()

    def _hold(self, epoch: int) -> list[Effect]:
        """A node of this broker stands: lead, or delete it if the broker has resigned."""
        self.token = epoch
        if self.stands:
            return self._lead(epoch) + self._finish()
        return self._delete()

    def _give_up(self) -> list[Effect]:
        """
        Delete this session's node, whose epoch is over; who stands sees it gone, and looks again.

        No election comes to this: whoever counts the epoch up creates the node with it. Somebody
        edited the epoch's node by hand; to lead on in the old epoch would be refused for ever. No
        fence is needed: as long as its session lives, the node that stands is this broker's.
        """
        return self._ask(Call.DELETE, Multi((Delete(self.paths.leader, ANY_VERSION),)))

    def _lead(self, epoch: int) -> list[Effect]:
        self.token = epoch
        self.leads = True
        return [LeadershipWon(epoch)]

    def _step_down(self) -> list[Effect]:
        if not self.leads:
            return []
        self.leads = False
        return [LeadershipLost(self.token)]


def leader_data(broker: str, epoch: int) -> bytes:
    """The data of the leader's node."""
    return f"{broker} {epoch}".encode()


def read_leader(data: bytes) -> tuple[str, int]:
    """The broker and the epoch that a leader's node names; ("", 0) if it is none of ours."""
    broker, _, epoch = data.decode(errors="replace").rpartition(" ")
    return (broker, int(epoch)) if epoch.isdigit() else ("", 0)
