"""
Flaws: the draft's election, and the verified one with single mistakes put back.

`DRAFTED` is what system B's draft says of its `ZkElection`: an ephemeral node whose data is the
broker's id, no epoch, no fence, nothing done on a suspended connection. Each of `FLAWS` is the
verified protocol with one mistake; the implementation's core has a switch of the same name. What
must come of each is declared (`Expected`): which property fails first, after how many steps, and by
which action. A missing, a different or a further failure is a failure of the check.
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec.language.specification import specification
from herdspec.language.surface import require
from herdspec.protocols.election.properties import PROMISES, one_coordinator_at_a_time
from herdspec.protocols.election.spec import Answer, Broker, Call, Election, Link
from herdspec.protocols.flaws import Failure, Flaw, variant_name

# ── Habits of the draft, and mistakes ───────────────────────────────────────────────────────


def any_write(self: Election, b: Broker) -> bool:
    """A write is accepted, whoever's it is."""
    return True


def any_create(self: Election, b: Broker) -> bool:
    """A node is created wherever none stands."""
    return self.holder is None


def any_delete(self: Election, b: Broker) -> bool:
    """Whatever node stands is deleted."""
    return self.holder is not None


def own_by_data(self: Election, b: Broker) -> bool:
    """The node's data names this broker."""
    return self.holder == b


def suspended_goes_unnoticed(self: Election, b: Broker) -> None:
    """{b}'s connection is lost; it goes on as it was."""
    require(not self.paused[b] and self.link[b] == Link.CONNECTED and not self.connected[b])
    self.link[b] = Link.SUSPENDED
    self.due[b] = False
    self.finish(b)


def lost_and_stopped(self: Election, b: Broker) -> None:
    """{b} learns that its session has expired, and stops leading."""
    require(not self.paused[b] and self.link[b] == Link.SUSPENDED and not self.alive[b])
    self.link[b] = Link.LOST
    self.leads[b] = False


def new_session_and_stopped(self: Election, b: Broker) -> None:
    """handleNewSession: {b} clears its state and tries to be elected again."""
    require(not self.paused[b] and self.link[b] == Link.LOST)
    self.alive[b] = True
    self.connected[b] = True
    self.link[b] = Link.CONNECTED
    self.leads[b] = False
    self.look_again(b)


def resign_and_leave_the_node(self: Election, b: Broker) -> None:
    """{b} resigns, and leaves its node."""
    require(not self.paused[b] and self.stands[b])
    self.stands[b] = False
    self.due[b] = False
    self.leads[b] = False


def look_without_watch(self: Election, b: Broker) -> None:
    """ZooKeeper tells {b} whether a leader's node stands."""
    self.reaches(b, Call.LOOK)
    self.answer[b] = self.shown(b)


def check_then_watch(self: Election, b: Broker) -> None:
    """ZooKeeper tells {b} whether a leader's node stands, and watches it at the second time."""
    self.reaches(b, Call.LOOK)
    self.answer[b] = self.shown(b)
    if self.number[b] == 1:
        self.watch[b] = True


def look_twice(self: Election, b: Broker) -> None:
    """{b} learns whether a leader's node stands; only then it sets a watch, and looks no more."""
    require(not self.paused[b] and self.call[b] == Call.LOOK)
    require(self.answer[b] in (Answer.ABSENT, Answer.OTHERS, Answer.MINE))
    if self.number[b] == 1:
        self.finish(b)
    elif self.answer[b] == Answer.ABSENT and self.stands[b]:
        self.leads[b] = False
        self.ask(b, Call.READ)
    elif self.answer[b] == Answer.MINE and not self.leads[b]:
        self.ask(b, Call.RECALL)
    elif self.answer[b] == Answer.ABSENT:
        self.leads[b] = False
        self.finish(b)
    else:
        self.leads[b] = self.answer[b] == Answer.MINE
        self.answer[b] = Answer.NONE
        self.number[b] = 1


def reconnect_without_look(self: Election, b: Broker) -> None:
    """{b}'s session finds a server again in time."""
    require(not self.paused[b] and self.link[b] == Link.SUSPENDED and self.alive[b])
    self.connected[b] = True
    self.sync(b)
    self.link[b] = Link.CONNECTED


def create_without_counting(self: Election, b: Broker) -> None:
    """The leader's node alone; no new epoch begins that somebody could have won."""
    self.holder = b
    self.orphan = False
    self.fire()


def reply_with_the_epoch_read(self: Election, b: Broker) -> None:
    """ZooKeeper creates {b}'s node; {b} goes by the epoch that it had read."""
    self.reaches(b, Call.CREATE)
    require(not self.behind[b])
    if self.accepts_create(b):
        self.create(b)
        self.answer[b] = Answer.CREATED
    else:
        self.answer[b] = Answer.REFUSED
        self.number[b] = 0


def lost_reply_believed(self: Election, b: Broker) -> None:
    """{b} learns that its connection is lost; a creation under way it takes for done."""
    require(not self.paused[b] and self.link[b] == Link.CONNECTED and not self.connected[b])
    self.link[b] = Link.SUSPENDED
    self.due[b] = False
    self.leads[b] = False
    if self.call[b] == Call.CREATE and self.answer[b] == Answer.NONE:
        self.token[b] = self.number[b] + 1
        self.leads[b] = True
    self.finish(b)


def no_sync(self: Election, b: Broker) -> None:
    """The first read of a new connection may be served by a server that lags."""


def look_and_create_at_once(self: Election, b: Broker) -> None:
    """{b} learns whether a leader's node stands; if none does, it creates one."""
    require(not self.paused[b] and self.call[b] == Call.LOOK)
    require(self.answer[b] in (Answer.ABSENT, Answer.OTHERS, Answer.MINE))
    if self.answer[b] == Answer.MINE:
        if self.leads[b]:
            self.finish(b)
        else:
            self.ask(b, Call.RECALL)
    elif self.answer[b] == Answer.ABSENT and self.stands[b]:
        self.leads[b] = False
        self.ask(b, Call.CREATE)
    else:
        self.leads[b] = False
        self.finish(b)


# ── What comes of them ──────────────────────────────────────────────────────────────────────


AT_ONCE = {"one_coordinator_at_a_time": Failure(15, "handle_create")}
"""Properties that hold of no protocol without clocks; so the verified one fails them."""

HELD = specification(Election, *PROMISES, one_coordinator_at_a_time)
"""The verified protocol and its promises, without the lemmas."""

DRAFTED = Flaw(
    HELD.replace(
        "Drafted",
        accepts_write=any_write,
        accepts_create=any_create,
        accepts_delete=any_delete,
        is_mine=own_by_data,
        handle_suspended=suspended_goes_unnoticed,
        handle_new_session=new_session_and_stopped,
        handle_look=look_and_create_at_once,
        sync=no_sync,
    ),
    frozenset(
        {
            "unfenced_write",
            "creates_at_once",
            "delete_any",
            "mine_by_data",
            "ignores_suspended",
            "ignores_lost",
            "no_sync",
        }
    ),
    {
        "only_the_present_epoch_writes": Failure(12, "write"),
        "a_broker_deletes_only_its_own_node": Failure(16, "serve_delete"),
        "a_node_is_taken_for_its_own_session_only": Failure(7, "serve_look"),
        "a_leader_can_still_be_elected": Failure(10, "serve_recall"),
        "only_who_is_sure_leads": Failure(7, "handle_suspended"),
        "one_coordinator_at_a_time": Failure(11, "handle_create"),
    },
    faults=3,
)


def _flaw(
    failures: dict[str, Failure],
    *switches: str,
    faults: int = 2,
    **functions: Callable[..., object],
) -> Flaw:
    name = variant_name(switches[0])
    expected = {**AT_ONCE, **failures}
    return Flaw(HELD.replace(name, **functions), frozenset(switches), expected, faults)


NO_LEADER = "a_leader_can_still_be_elected"
TWO_IN_ONE_EPOCH = "one_coordinator_per_epoch"
UNSURE = "only_who_is_sure_leads"
STALE_WRITE = "only_the_present_epoch_writes"
NOT_MINE = "a_node_is_taken_for_its_own_session_only"

FLAWS = {
    "unfenced_write": _flaw(
        {STALE_WRITE: Failure(16, "write")}, "unfenced_write", accepts_write=any_write
    ),
    "ignores_suspended": _flaw(
        {UNSURE: Failure(9, "handle_suspended")},
        "ignores_suspended",
        handle_suspended=suspended_goes_unnoticed,
        handle_lost=lost_and_stopped,
    ),
    "ignores_lost": _flaw(
        {UNSURE: Failure(9, "handle_suspended")},
        "ignores_lost",
        "ignores_suspended",
        handle_suspended=suspended_goes_unnoticed,
        handle_new_session=new_session_and_stopped,
    ),
    "mine_by_data": _flaw(
        {NOT_MINE: Failure(9, "serve_look")}, "mine_by_data", is_mine=own_by_data
    ),
    "delete_any": _flaw(
        {
            NOT_MINE: Failure(9, "serve_look"),
            "a_broker_deletes_only_its_own_node": Failure(20, "serve_delete"),
        },
        "delete_any",
        "mine_by_data",
        accepts_delete=any_delete,
        is_mine=own_by_data,
    ),
    "resign_keeps_node": _flaw(
        {NO_LEADER: Failure(9, "resign")}, "resign_keeps_node", resign=resign_and_leave_the_node
    ),
    "no_watch": _flaw(
        {NO_LEADER: Failure(9, "serve_look")}, "no_watch", serve_look=look_without_watch
    ),
    "watch_after_check": _flaw(
        {NO_LEADER: Failure(10, "expire")},
        "watch_after_check",
        serve_look=check_then_watch,
        handle_look=look_twice,
    ),
    "no_look_after_reconnect": _flaw(
        {NO_LEADER: Failure(2, "cut")},
        "no_look_after_reconnect",
        handle_reconnected=reconnect_without_look,
    ),
    "uncounted_epoch": _flaw(
        {TWO_IN_ONE_EPOCH: Failure(15, "handle_create"), "epochs_grow": Failure(6, "serve_create")},
        "uncounted_epoch",
        create=create_without_counting,
    ),
    "epoch_of_read": _flaw(
        {TWO_IN_ONE_EPOCH: Failure(20, "handle_create"), NO_LEADER: Failure(1, "stand")},
        "epoch_of_read",
        serve_create=reply_with_the_epoch_read,
    ),
    "believes_lost_reply": _flaw(
        {
            TWO_IN_ONE_EPOCH: Failure(14, "handle_suspended"),
            STALE_WRITE: Failure(15, "write"),
            UNSURE: Failure(7, "handle_suspended"),
            "one_coordinator_at_a_time": Failure(14, "handle_suspended"),
        },
        "believes_lost_reply",
        handle_suspended=lost_reply_believed,
    ),
    "no_sync": _flaw({NO_LEADER: Failure(12, "serve_recall")}, "no_sync", sync=no_sync, faults=3),
}
