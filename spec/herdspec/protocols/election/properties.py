"""
The properties of the election, each under its sentence.

`ELECTION` is the verified protocol with its properties: `PROMISES`, what must be possible, and the
lemmas that make the promises inductive. `one_coordinator_at_a_time` is what nobody can promise
without clocks; it is declared to fail (`flaws.AT_ONCE`).
"""

from __future__ import annotations

from herdspec.language.specification import specification
from herdspec.language.surface import Nat, always, lemma, recoverable, sometimes, step
from herdspec.protocols.election.spec import Answer, Broker, Call, Election, Link, View

# ── Promises ────────────────────────────────────────────────────────────────────────────────


@always
def one_coordinator_per_epoch(s: Election) -> bool:
    """At most one broker leads in any epoch."""
    return all(
        not (s.leads[a] and s.leads[b] and s.token[a] == s.token[b])
        for a in Broker
        for b in Broker
        if a != b
    )


@step
def epochs_grow(before: Election, after: Election) -> bool:
    """The epoch never goes back, and every new holder of the node has a greater one."""
    return before.epoch <= after.epoch and (
        after.holder is None or after.holder == before.holder or before.epoch < after.epoch
    )


@step
def tokens_grow(before: Election, after: Election) -> bool:
    """No broker is given a smaller epoch than it had, unless its process starts anew."""
    return all(before.token[b] <= after.token[b] or after.token[b] == 0 for b in Broker)


@always
def only_the_present_epoch_writes(s: Election) -> bool:
    """A write is accepted only from the coordinator of the current epoch."""
    return not s.stale_write_accepted


@always
def only_who_is_sure_leads(s: Election) -> bool:
    """A broker that knows its session in doubt does not lead."""
    return all(not s.leads[b] or s.link[b] == Link.CONNECTED for b in Broker)


@recoverable
def a_leader_can_still_be_elected(s: Election) -> bool:
    """Without further faults, brokers that stand can still come to have a leader."""
    return not any(s.stands[b] for b in Broker) or any(
        s.leads[b] and s.is_mine(b) and s.token[b] == s.epoch for b in Broker
    )


@step
def a_broker_deletes_only_its_own_node(before: Election, after: Election) -> bool:
    """A broker deletes no node but its own."""
    return all(
        before.answer[b] == after.answer[b]
        or after.answer[b] != Answer.DELETED
        or before.holder == b
        for b in Broker
    )


@step
def a_node_is_taken_for_its_own_session_only(before: Election, after: Election) -> bool:
    """A broker is told that the leader's node is its own only if its present session owns it."""
    return all(
        before.answer[b] == after.answer[b]
        or after.answer[b] != Answer.MINE
        or before.behind[b]
        or (before.holder == b and not before.orphan)
        for b in Broker
    )


@always
def one_coordinator_at_a_time(s: Election) -> bool:
    """At no time do two brokers believe that they lead (no protocol without clocks can do this)."""
    return all(not (s.leads[a] and s.leads[b]) for a in Broker for b in Broker if a != b)


# ── What must be possible ───────────────────────────────────────────────────────────────────


@sometimes
def a_broker_leads(s: Election) -> bool:
    """A broker leads."""
    return any(s.leads[b] for b in Broker)


@sometimes
def another_is_elected_after_a_resignation(s: Election) -> bool:
    """A broker resigned, and another leads in a greater epoch."""
    return any(
        s.leads[a] and s.token[b] > 0 and s.token[b] < s.token[a] and not s.stands[b] and s.alive[b]
        for a in Broker
        for b in Broker
    )


@sometimes
def a_session_expires_before_its_client_knows(s: Election) -> bool:
    """A broker leads whose session has expired."""
    return any(s.leads[b] and not s.alive[b] for b in Broker)


@sometimes
def a_session_is_suspended(s: Election) -> bool:
    """A broker that stands has lost its connection, and knows it."""
    return any(s.stands[b] and s.link[b] == Link.SUSPENDED for b in Broker)


@sometimes
def a_session_is_lost(s: Election) -> bool:
    """A broker has been told that its session expired."""
    return any(s.link[b] == Link.LOST for b in Broker)


@sometimes
def a_paused_broker_still_believes_it_leads(s: Election) -> bool:
    """A paused broker believes that it leads, while another has been elected."""
    return any(s.paused[b] and s.leads[b] and s.elected != b for b in Broker)


@sometimes
def it_wakes_up_believing_it_leads(s: Election) -> bool:
    """Two brokers lead, each in an epoch of its own."""
    return any(s.leads[a] and s.leads[b] and a != b for a in Broker for b in Broker)


@sometimes
def a_watch_fires_late(s: Election) -> bool:
    """A broker has yet to look, though what it was to see has gone again."""
    return any(
        s.due[b] and s.call[b] == Call.NONE and s.holder is None and s.token[b] < s.epoch
        for b in Broker
    )


@sometimes
def a_former_sessions_node_still_stands(s: Election) -> bool:
    """A broker has a new session while the node of its former one stands."""
    return any(s.orphan and s.holder == b and s.stands[b] for b in Broker)


@sometimes
def a_lagging_server_misleads(s: Election) -> bool:
    """A broker is told that nothing stands, though a node does."""
    return any(
        s.behind[b] and s.answer[b] == Answer.ABSENT and s.holder is not None for b in Broker
    )


@sometimes
def a_reply_is_lost(s: Election) -> bool:
    """A broker's node stands, and the reply that would have told it is lost."""
    return any(s.is_mine(b) and s.call[b] == Call.CREATE and not s.connected[b] for b in Broker)


@sometimes
def a_stale_write_is_refused(s: Election) -> bool:
    """A broker that could write has an epoch that is over."""
    return any(s.token[b] > 0 and s.connected[b] and not s.accepts_write(b) for b in Broker)


# ── Lemmas: with them the promises are inductive ────────────────────────────────────────────


def given(s: Election, b: Broker, epoch: Nat) -> bool:
    """The broker has this epoch, or will have it when it reads what is on its way to it."""
    return epoch > 0 and (
        s.token[b] == epoch
        or (s.answer[b] in (Answer.CREATED, Answer.MINE) and s.number[b] == epoch)
        or (s.behind[b] and s.view[b] == View.MINE and s.view_epoch[b] == epoch)
        or (s.is_mine(b) and s.epoch == epoch)
    )


@lemma
def no_epoch_is_given_to_two(s: Election) -> bool:
    """No epoch is given to two brokers."""
    return all(
        not given(s, b, s.token[a])
        and not (s.answer[a] in (Answer.CREATED, Answer.MINE) and given(s, b, s.number[a]))
        and not (s.behind[a] and s.view[a] == View.MINE and given(s, b, s.view_epoch[a]))
        for a in Broker
        for b in Broker
        if a != b
    )


@lemma
def the_present_epoch_is_its_winners(s: Election) -> bool:
    """Whoever is given the present epoch has won it, and the node that stands is the winner's."""
    return all(not given(s, b, s.epoch) or s.elected == b for b in Broker) and (
        s.holder is None or s.holder == s.elected
    )


@lemma
def epochs_given_have_been(s: Election) -> bool:
    """No broker has an epoch that has not been, and what it gets is no smaller than what it has."""
    return all(
        s.token[b] <= s.epoch
        and s.number[b] <= s.epoch
        and s.view_epoch[b] <= s.epoch
        and (not s.behind[b] or (s.token[b] <= s.view_epoch[b] and s.number[b] <= s.view_epoch[b]))
        for b in Broker
    )


@lemma
def epochs_begin_at_one(s: Election) -> bool:
    """Whoever leads, owns the node or is about to learn that it does, does so in a real epoch."""
    return (s.holder is None or s.epoch > 0) and all(
        (not s.leads[b] or s.token[b] > 0)
        and (s.view[b] == View.ABSENT or s.view_epoch[b] > 0)
        and (s.answer[b] != Answer.CREATED or (s.number[b] > 0 and s.token[b] <= s.number[b]))
        and (
            s.answer[b] != Answer.MINE
            or s.call[b] != Call.RECALL
            or (s.number[b] > 0 and s.token[b] <= s.number[b])
        )
        for b in Broker
    )


@lemma
def who_is_not_connected_asks_nothing(s: Election) -> bool:
    """A broker that knows itself disconnected has no call under way, no watch and nothing due."""
    return all(
        (not s.connected[b] or (s.alive[b] and s.link[b] == Link.CONNECTED))
        and (not s.watch[b] or s.connected[b])
        and (not s.due[b] or (s.stands[b] and s.link[b] == Link.CONNECTED))
        and (s.call[b] == Call.NONE or s.link[b] == Link.CONNECTED)
        and (s.call[b] != Call.NONE or (s.answer[b] == Answer.NONE and s.number[b] == 0))
        and (s.number[b] == 0 or s.call[b] not in (Call.LOOK, Call.DELETE))
        and (s.number[b] == 0 or s.call[b] == Call.CREATE or s.answer[b] != Answer.NONE)
        for b in Broker
    )


@lemma
def what_it_is_told_of_its_node_is_true(s: Election) -> bool:
    """While a broker's node stands, its session lives, and what it is told of it is its epoch."""
    return all(
        (not s.is_mine(b) or s.alive[b])
        and (not s.behind[b] or s.alive[b])
        and (s.link[b] != Link.LOST or not s.alive[b])
        and (
            not s.is_mine(b)
            or not (s.answer[b] == Answer.CREATED or tells_epoch(s, b))
            or s.number[b] == s.epoch
        )
        and (
            not (s.is_mine(b) and s.behind[b] and s.connected[b] and s.view[b] == View.MINE)
            or s.view_epoch[b] == s.epoch
        )
        and (
            not (s.behind[b] and s.connected[b] and s.view[b] == View.MINE)
            or not (s.answer[b] == Answer.CREATED or tells_epoch(s, b))
            or s.number[b] == s.view_epoch[b]
        )
        for b in Broker
    )


# ── Lemmas about the shape of a state: code is put into states, and these are all that it has ──


@lemma
def only_a_node_that_stands_is_a_former_sessions(s: Election) -> bool:
    """Only a node that stands belongs to a former session."""
    return not s.orphan or s.holder is not None


@lemma
def only_lagging_servers_have_a_view(s: Election) -> bool:
    """A server that is up to date shows what is true."""
    return all(s.behind[b] or (s.view[b] == View.ABSENT and s.view_epoch[b] == 0) for b in Broker)


@lemma
def answers_are_to_the_call_under_way(s: Election) -> bool:
    """Each call is answered in its own way."""
    return all(
        s.answer[b] == Answer.NONE
        or (
            s.call[b] in (Call.LOOK, Call.RECALL)
            and s.answer[b] in (Answer.ABSENT, Answer.OTHERS, Answer.MINE)
        )
        or (s.call[b] == Call.READ and s.answer[b] == Answer.EPOCH)
        or (s.call[b] == Call.CREATE and s.answer[b] in (Answer.CREATED, Answer.REFUSED))
        or (s.call[b] == Call.DELETE and s.answer[b] in (Answer.DELETED, Answer.REFUSED))
        for b in Broker
    )


@lemma
def only_what_tells_an_epoch_carries_one(s: Election) -> bool:
    """No other call or answer carries an epoch than a creation, or what tells of one."""
    return all(
        s.number[b] == 0
        or s.answer[b] == Answer.EPOCH
        or tells_epoch(s, b)
        or (s.call[b] == Call.CREATE and s.answer[b] != Answer.REFUSED)
        for b in Broker
    )


@lemma
def who_leads_stands(s: Election) -> bool:
    """Whoever leads stands for election."""
    return all(not s.leads[b] or s.stands[b] for b in Broker)


def tells_epoch(s: Election, b: Broker) -> bool:
    """The answer to a recall says that the node is the broker's own."""
    return s.call[b] == Call.RECALL and s.answer[b] == Answer.MINE


PROMISES = (
    one_coordinator_per_epoch, epochs_grow, tokens_grow, only_the_present_epoch_writes,
    only_who_is_sure_leads, a_broker_deletes_only_its_own_node,
    a_node_is_taken_for_its_own_session_only, a_leader_can_still_be_elected,
)  # fmt: skip
POSSIBLE = (
    a_broker_leads, another_is_elected_after_a_resignation,
    a_session_expires_before_its_client_knows, a_session_is_suspended, a_session_is_lost,
    a_paused_broker_still_believes_it_leads, it_wakes_up_believing_it_leads, a_watch_fires_late,
    a_former_sessions_node_still_stands, a_lagging_server_misleads, a_reply_is_lost,
    a_stale_write_is_refused,
)  # fmt: skip
SHAPE = (
    only_a_node_that_stands_is_a_former_sessions, only_lagging_servers_have_a_view,
    answers_are_to_the_call_under_way, only_what_tells_an_epoch_carries_one, who_leads_stands,
)  # fmt: skip
"""Properties that no other promise needs: they say which states code may be put into."""
LEMMAS = (
    no_epoch_is_given_to_two, the_present_epoch_is_its_winners, epochs_given_have_been,
    epochs_begin_at_one, who_is_not_connected_asks_nothing, what_it_is_told_of_its_node_is_true,
    *SHAPE,
)  # fmt: skip

ELECTION = specification(Election, *PROMISES, one_coordinator_at_a_time, *POSSIBLE, *LEMMAS)
