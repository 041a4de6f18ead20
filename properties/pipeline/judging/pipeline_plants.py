"""
Violations planted in real traces: one line that tells something else, and a promise is violated.

A plant is given a trace of a simulated run of the verified cores, and changes it; None where the
run has nothing that it could change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from herdproof.conformance.traces.line import START
from herdproof.protocols.central_coordinator.traces.lines import CentralStep as Line
from properties.pipeline.pipeline_traces import Trace, changed, first, moved_before, told_after

Plant = Callable[[Trace], Trace | None]

PLANTS: dict[str, list[Plant]] = {}
"""By the promise that each violates."""
ALSO: dict[str, set[str]] = {}
"""By a plant's name, the promises that are violated with that."""


def violates(promise: str, *also: str) -> Callable[[Plant], Plant]:
    """What follows plants a violation of it."""

    def enter(plant: Plant) -> Plant:
        PLANTS.setdefault(promise, []).append(plant)
        ALSO[plant.__name__] = {*also}
        return plant

    return enter


def _done(lines: Trace, write: Line) -> Line | None:
    """The answer to a write, if it says that it was done."""
    own = [x for x in lines[lines.index(write) + 1 :] if x.node == write.node]
    answer = first(own, lambda line: line.action == START or line.number == write.number)
    return answer if answer is not None and answer.outcome == "done" else None


_CHANGES = frozenset(
    {
        "handle_register", "handle_closed", "fail", "topic_change_listener", START, "step_down",
        "coordinator_startup", "begin_rebalance", "fail_rebalance", "handle_stop_response",
    }
)  # fmt: skip


def _undisturbed(lines: Trace) -> Iterator[Line]:
    """Writes of owners before which everybody stopped, and after which everybody started."""
    for write in lines:
        if write.action == "write_owners" and write.owners and _done(lines, write):
            own = [x for x in lines if (x.role, x.node) == (write.role, write.node)]
            at = own.index(write)
            before = [x for x in own[:at] if x.action in _CHANGES]
            after = first(own[at:], lambda x: x.action in {*_CHANGES, "finish_rebalance"})
            finishes = after is not None and after.action == "finish_rebalance"
            if before[-1].action == "handle_stop_response" and finishes:
                yield write


def _tenures(lines: Trace) -> Iterator[tuple[Line, Line]]:
    """Starts that gave something, and the Stop of the same connection that ended them."""
    for start in lines:
        if start.action == "handle_start" and start.partitions and not start.outcome:
            own = [
                line
                for line in lines[lines.index(start) + 1 :]
                if (line.node, line.role) == (start.node, "consumer")
                and line.action in ("handle_stop", "handle_start", "on_lost_connection", START)
            ]
            if own and own[0].action == "handle_stop":
                yield start, own[0]


@violates("exclusive", "who_consumes_owns")
def it_has_not_stopped(lines: Trace) -> Trace | None:
    """Who answers a Stop may still deliver for an hour, as it says; another one begins."""
    for start, stop in _tenures(lines):
        mine = {place[:2] for place in start.partitions}
        for line in lines[lines.index(stop) + 1 :]:
            if (line.role, line.node) == ("consumer", stop.node):
                break
            others = {place[:2] for place in line.partitions}
            if line.action == "handle_start" and mine & others:
                return changed(lines, stop, until_ns=stop.time_ns + 3_600 * 10**9)
    return None


@violates("exclusive_fenced")
def somebody_else_commits(lines: Trace) -> Trace | None:
    """A commit is accepted from a member that is not the owner."""
    commit = first(lines, lambda x: (x.action, x.outcome) == ("handle_commit", "accepted"))
    return None if commit is None else changed(lines, commit, member="9-9")


@violates("exclusive_fenced")
def a_commit_of_the_past(lines: Trace) -> Trace | None:
    """A commit of the generation before is accepted."""
    commit = first(
        lines,
        lambda x: (x.action, x.outcome) == ("handle_commit", "accepted") and x.generation > 1,
    )
    return None if commit is None else changed(lines, commit, generation=commit.generation - 1)


@violates("exclusive_fenced")
def nobody_told_it(lines: Trace) -> Trace | None:
    """What is stored was in no answer."""
    for flush in lines:
        if flush.action == "flush_offsets" and len(flush.partitions) == 1:
            told = [
                line
                for line in lines
                if line.role == "coordinator"
                and line.action.endswith("_response")
                and flush.partitions[0] in line.partitions
            ]
            answer = _done(lines, flush)
            ours = [line for line in told if answer and line.time_ns <= answer.time_ns]
            commits = [x for x in lines if x.action == "handle_commit"]
            committed = any(flush.partitions[0] in commit.partitions for commit in commits)
            if len(ours) == 1 and not committed:
                return changed(lines, ours[0], partitions=())
    return None


@violates("only_the_present_epoch_writes")
def a_write_of_the_past(lines: Trace) -> Trace | None:
    """A write is done that names the epoch before, which was over when it was sent."""
    epochs = sorted({x.epoch for x in lines if x.action == "coordinator_startup"})
    for flush in reversed(lines):
        later = flush.action == "flush_offsets" and flush.epoch in epochs[1:]
        if later and _done(lines, flush):
            return changed(lines, flush, epoch=epochs[epochs.index(flush.epoch) - 1])
    return None


@violates("members_follow_no_older_epoch")
def a_command_of_the_past(lines: Trace) -> Trace | None:
    """A ping of the epoch before is answered."""
    last: dict[str, int] = {}
    for line in lines:
        if line.role == "consumer" and line.action == START:
            last.pop(line.node, None)
        if line.action == "handle_ping" and line.epoch > 1 and last.get(line.node) == line.epoch:
            return changed(lines, line, epoch=line.epoch - 1)
        if line.role == "consumer":
            last[line.node] = line.epoch
    return None


@violates("who_does_not_lead_commands_nobody")
def a_ping_of_the_deposed(lines: Trace) -> Trace | None:
    """A coordinator that has stepped down sends a ping."""
    down = first(lines, lambda line: line.action == "step_down")
    if down is None:
        return None
    ping = first(lines, lambda x: (x.action, x.node) == ("send_ping", down.node))
    if ping is None:
        return None
    return told_after(
        lines, down, action="send_ping", group=ping.group, consumer=ping.consumer,
        member=ping.member, connection=ping.connection,
    )  # fmt: skip


@violates("who_does_not_lead_commands_nobody")
def a_ping_that_nobody_tells_of(lines: Trace) -> Trace | None:
    """A consumer answers one more ping over a connection whose coordinator has stepped down."""
    for down in lines:
        later = lines[lines.index(down) + 1 :] if down.action == "step_down" else []
        own = first(later, lambda x, d=down: (x.role, x.node) == (d.role, d.node))  # type: ignore[misc]
        if own is None or own.sequence < down.sequence:
            continue  # nobody knows whether its trace was cut
        for ping in later:
            if ping.action == "on_lost_connection" and ping.epoch == down.epoch:
                before = [x for x in lines if x.node == ping.node and x.role == "consumer"]
                latest = before[before.index(ping) - 1]
                if latest.action == "handle_ping" and latest.connection == ping.connection:
                    up = first(later, lambda x: x.action == "coordinator_startup")
                    if up is None or up.time_ns >= ping.time_ns:
                        return changed(
                            lines, ping, action="handle_ping", until_ns=ping.time_ns,
                            partitions=(), outcome="",
                        )  # fmt: skip
    return None


@violates("a_start_says_what_is_stored")
def started_before_it_is_written(lines: Trace) -> Trace | None:
    """The first Start of a generation is sent before the answer to the owners' write."""
    for write in lines:
        if write.action == "write_owners":
            own = [x for x in lines[lines.index(write) :] if x.node == write.node]
            for answer, start in pairwise(own):
                if (answer.number, answer.outcome, start.action) == (
                    write.number, "done", "send_start",
                ) and start.partitions:  # fmt: skip
                    return moved_before(lines, start, answer)
    return None


@violates(
    "committed_offsets_never_go_back", "a_start_says_what_is_stored",
    "what_was_taken_is_stored_at_the_handover", "who_begins_does_so_at_the_stored_offset",
    "exclusive_fenced",
)  # fmt: skip
def a_stored_offset_goes_back(lines: Trace) -> Trace | None:
    """Of two offsets of a partition that are stored one after the other, the second is less."""
    stored: dict[tuple[str, str], int] = {}
    for flush in lines:
        if flush.action != "flush_offsets":
            continue
        if len(flush.partitions) == 1:
            topic, number, _ = flush.partitions[0]
            if stored.get((topic, number), 0) > 1 and _is_last(lines, flush):
                return changed(lines, flush, partitions=((topic, number, 0),))
        stored |= {(t, n): offset for t, n, offset in flush.partitions}
    return None


def _is_last(lines: Trace, flush: Line) -> bool:
    """Whether its partition's offset is not written any more, and this write is done."""
    later = lines[lines.index(flush) + 1 :]
    names = {place[:2] for place in flush.partitions}
    again = any(
        names & {place[:2] for place in line.partitions}
        for line in later
        if line.action == "flush_offsets"
    )
    return not again and _done(lines, flush) is not None


@violates("a_start_says_what_is_stored")
def a_start_goes_back(lines: Trace) -> Trace | None:
    """A Start is sent that begins before what is stored."""
    for line in lines:
        if line.action == "send_start" and line.partitions and line.partitions[0][2] > 0:
            topic, number, offset = line.partitions[0]
            stored = any(
                (topic, number, offset) in x.partitions
                for x in lines[: lines.index(line)]
                if x.action == "flush_offsets"
            )
            if stored:
                places = ((topic, number, offset - 1), *line.partitions[1:])
                return changed(lines, line, partitions=places)
    return None


@violates(
    "who_begins_does_so_at_the_stored_offset", "nobody_is_past_the_unfinished",
    "only_finished_is_committed",
)  # fmt: skip
def a_consumer_begins_too_far(lines: Trace) -> Trace | None:
    """A consumer begins five records after those that were finished."""
    for line in reversed(lines):
        if line.action == "handle_start" and line.partitions and line.partitions[0][2] >= 0:
            topic, number, offset = line.partitions[0]
            places = ((topic, number, offset + 5), *line.partitions[1:])
            earlier = [x for x in lines[: lines.index(line)] if x.action == "handle_start"]
            stored = {p[:2] for x in earlier for p in x.partitions if p[2] >= 0}
            if (topic, number) in stored:
                return changed(lines, line, partitions=places)
    return None


@violates("only_finished_is_committed", "exclusive_fenced")
def more_is_stored_than_finished(lines: Trace) -> Trace | None:
    """An offset is stored that lies a thousand records ahead."""
    for flush in reversed(lines):
        if flush.action == "flush_offsets" and _is_last(lines, flush):
            names = {place[:2] for place in flush.partitions}
            later = lines[lines.index(flush) :]
            begun = any(
                names & {p[:2] for p in x.partitions} for x in later if x.action == "send_start"
            )
            before = [x for x in lines[: lines.index(flush)] if x.action == "flush_offsets"]
            known = any(names & {p[:2] for p in x.partitions} for x in before)
            if known and not begun:
                ahead = tuple((t, n, offset + 1_000) for t, n, offset in flush.partitions)
                return changed(lines, flush, partitions=ahead)
    return None


@violates("a_resolved_start_is_stored_first")
def its_start_was_not_stored(lines: Trace) -> Trace | None:
    """The write of a start that was resolved is refused, and its consumer goes on."""
    unstored = {
        place[:2]
        for line in lines
        if line.action == "handle_start"
        for place in line.partitions
        if place[2] < 0
    }
    for flush in lines:
        if flush.action == "flush_offsets" and len(flush.partitions) == 1:
            topic, number, offset = flush.partitions[0]
            if (topic, number) not in unstored:
                continue
            later = lines[lines.index(flush) + 1 :]
            answer = _done(lines, flush)
            told = first(
                later,
                lambda x, p=(topic, number), o=offset: (
                    x.role == "consumer"  # type: ignore[misc]
                    and any(place[:2] == p and place[2] > o for place in x.partitions)
                ),
            )
            begins = first(later, lambda x: x.action == "write_owners")
            if answer and told and (begins is None or told.time_ns < begins.time_ns):
                return changed(lines, answer, outcome="refused")
        if flush.action in ("flush_offsets", "send_start"):
            unstored -= {place[:2] for place in flush.partitions if place[2] >= 0}
    return None


@violates("a_resolved_start_is_stored_first", "only_the_present_epoch_writes", "stored_as_taken")
def it_never_asked(lines: Trace) -> Trace | None:
    """A consumer tells its start, and what comes after it, in its answers alone."""
    for commit in lines:
        if commit.action != "commit" or len(commit.partitions) != 1:
            continue
        topic, number, offset = commit.partitions[0]
        own = [x for x in lines if (x.role, x.node) == (commit.role, commit.node)]
        at = own.index(commit)
        begun = [x for x in own[:at] if x.action == "handle_start"]
        if not begun or (topic, number, -1) not in begun[-1].partitions:
            continue
        told = []
        for line in own[at + 1 :]:
            told += [p[2] for p in line.partitions if p[:2] == (topic, number)]
            if line.action not in ("handle_ping", "renew_lease"):
                break
        if told and told[0] == offset < told[-1] and own[at + 1].action == "handle_ping":
            return changed(lines, commit, partitions=())
    return None


@violates("complete", "shares_are_even")
def it_wants_something_else(lines: Trace) -> Trace | None:
    """A member is given partitions of a topic that it has not subscribed to."""
    for write in _undisturbed(lines):
        member = write.owners[0][2]
        accepted = first(lines, lambda x, m=member: x.member == m)  # type: ignore[misc]
        assert accepted is not None, "an owner was accepted"
        who = (accepted.consumer, accepted.connection)
        register = first(
            lines,
            lambda x, w=who: x.action == "register" and (x.consumer, x.connection) == w,  # type: ignore[misc]
        )
        return None if register is None else changed(lines, register, subscription='{"nothing": 1}')
    return None


@violates("complete", "shares_are_even")
def a_partition_was_forgotten(lines: Trace) -> Trace | None:
    """A partition of a subscribed topic is there that nobody is given."""
    for write in _undisturbed(lines):
        name = write.owners[0][0]
        known = [
            x
            for x in lines[: lines.index(write)]
            if x.action == "topic_change_listener"
            and x.node == write.node
            and x.partitions[0][0] == name
        ]
        return changed(lines, known[-1], partitions=(*known[-1].partitions, (name, "77", -1)))
    return None


@violates("one_coordinator", "an_epoch_is_won_by_one")
def two_in_one_epoch(lines: Trace) -> Trace | None:
    """Another broker coordinates in the epoch of the one before."""
    elected = [line for line in lines if line.action == "coordinator_startup"]
    for one, two in pairwise(elected):
        if one.node != two.node and two.epoch > one.epoch:
            return changed(lines, two, epoch=one.epoch)
    return None
