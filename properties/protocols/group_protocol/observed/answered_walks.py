"""
Random walks of the group protocol's spec, told as whoever looks on from outside would tell them.

Of each request there is a line once it was answered: written at once, or when its client has heard;
of one that was lost, perhaps none. A member id is a member of the spec's, whoever bears it; a
connection ends with whatever is lost.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from herdproof.conformance.traces.line import START, TraceLine
from herdproof.consuming.consumer_protocol import write_assignment
from herdproof.protocols.group_protocol.messages import Error
from herdproof.protocols.group_protocol.tracing import ANSWERED, GROUP_PROTOCOL, KAFKA
from herdspec.check.conformance.follow import Call, PlainSteps
from herdspec.check.running.run import Machine
from herdspec.engine.ground import LARGEST, Ground
from herdspec.language.specification import Specification
from herdspec.language.surface import ActionKind, sizes_of_sorts
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.spec import GroupAnswer, GroupProtocol

RARE, WISHED = 0.02, 0.2
"""The share of turns at which a fault is tried first, and up to which it is a user's wish."""
ERRORS = {
    GroupAnswer.MEMBER_ID_REQUIRED: Error.MEMBER_ID_REQUIRED,
    GroupAnswer.UNKNOWN_MEMBER_ID: Error.UNKNOWN_MEMBER_ID,
    GroupAnswer.ILLEGAL_GENERATION: Error.ILLEGAL_GENERATION,
    GroupAnswer.REBALANCE_IN_PROGRESS: Error.REBALANCE_IN_PROGRESS,
}
LOADS = ("load_group", "restart", "doubt", "step_down")


def kind_of(name: str, kind: ActionKind) -> str:
    """Tells how often an action is tried: a fault seldom, and so that a client ends."""
    if kind is ActionKind.FAULT or name == "close":
        return "rare"
    return "wished" if kind is ActionKind.COMMAND else "due"


def name_of(m: Member | None) -> str:
    """Its member id."""
    return "" if m is None else f"m{m.index}"


@dataclass
class Asked:
    """A request that awaits its answer."""

    api: str
    since: int
    connection: int
    known: bool = False
    answer: dict[str, Any] | None = None
    is_written: bool = False


class AnsweredWalk:
    """One walk, and its lines."""

    def __init__(self, spec: Specification, sizes: Mapping[str, int], seed: int) -> None:
        self._sizes = {"Broker": 1, "Member": 2, "Partition": 1} | dict(sizes)
        self._steps = PlainSteps(Machine(Ground(spec, self._sizes, bound=LARGEST, faults=1)))
        self._chance = Random(seed)
        self._asked: dict[Member, Asked] = {}
        self._leaving: dict[Member, int] = {}
        self._committing: dict[Member, int] = {}
        self._connection = 0
        self._of: dict[Member, int] = {}
        """By member, its present connection."""
        self._now = 0
        self._holders: set[Member] = set()
        """Who was in the generation that was assigned last."""
        self.lines = [self._line(START, {}, 0)]
        self.taken: set[str] = set()

    def run(self, steps: int) -> list[TraceLine]:
        """Go so many steps, or until something is forgotten that Kafka would not forget so."""
        with sizes_of_sorts(self._sizes):
            machine = self._steps.machine
            state: Any = self._chance.choice([*machine.starts()])
            calls: dict[str, list[Call]] = {
                action.name: [
                    (action.name, machine.arguments(action, numbers))
                    for numbers in machine.ground.choices(action)
                ]
                for action in machine.spec.actions
            }
            kinds = {action.name: action.kind for action in machine.spec.actions}
            for _ in range(steps):
                found = self._next(state, calls, kinds)
                if found is None:
                    break
                (action, arguments), after = found
                if action == "load_group" and self._forgets_otherwise(state, after):
                    break
                self._now += 10
                self.taken.add(action)
                self._tell(action, arguments, state, after)
                state = after
        return self.lines

    def _next(
        self, state: Any, calls: Mapping[str, Sequence[Call]], kinds: Mapping[str, ActionKind]
    ) -> tuple[Call, Any] | None:
        """Some step that is possible: seldom a fault."""
        drawn = self._chance.random()
        order = [*(["rare"] if drawn < RARE else ["wished"] if drawn < WISHED else []), "due"]
        for kind in [*order, "wished", "rare"]:
            names = [name for name in calls if kind_of(name, kinds[name]) == kind]
            for call in self._shuffled([call for name in names for call in calls[name]]):
                after = self._steps.take(state, *call)
                if after is not None:
                    return call, after
        return None

    def _shuffled(self, calls: list[Call]) -> list[Call]:
        self._chance.shuffle(calls)
        return calls

    def _forgets_otherwise(self, before: GroupProtocol, after: GroupProtocol) -> bool:
        """True if a generation is forgotten, and its members are not those of the last one."""
        return after.generation < before.generation and self._holders != {
            m for m in Member if after.belongs[m]
        }

    # ── What is written ─────────────────────────────────────────────────────────────────────

    def _line(self, action: str, arguments: dict[str, Any], since: int) -> TraceLine:
        number = len(self.lines) + 1 if hasattr(self, "lines") else 1
        return TraceLine(
            schema=2, protocol=GROUP_PROTOCOL, run="r", node=KAFKA, role=KAFKA, sequence=number,
            time_ns=self._now + 9, action=action, since_ns=since, arguments=arguments,
            group="g" if arguments else "", place=f"line {number}",
        )  # fmt: skip

    def _write(
        self, api: str, since: int, connection: int, request: dict[str, Any], answer: dict[str, Any]
    ) -> None:
        request = {"group_id": "g", **request}
        arguments = {"api": api, "request": request, "answer": answer, "connection": connection}
        self.lines.append(self._line(ANSWERED, arguments, since))

    def _at(self, m: Member) -> int:
        if m not in self._of:
            self._hang_up(m)
        return self._of[m]

    def _hang_up(self, m: Member) -> None:
        self._connection += 1
        self._of[m] = self._connection

    def _tell(
        self, action: str, arguments: Sequence[Any], before: GroupProtocol, after: GroupProtocol
    ) -> None:
        """What a step shows."""
        for m in Member:
            if before.down[m] == GroupAnswer.NONE != after.down[m] and m in self._asked:
                self._answered(m, after)
        if action in TOLD:
            TOLD[action](self, arguments[0], before, after)
        for m in Member:
            asked = self._asked.get(m)
            if asked is not None and before.awaits[m] != after.awaits[m]:
                self._heard(m, asked, action, after)
            if after.awaits[m] != before.awaits[m] and after.up[m]:
                api = "JoinGroup" if action == "initiate_join_group" else "SyncGroup"
                self._asked[m] = Asked(api, self._now, self._at(m), after.has_id[m])
        if action in LOADS and before.coordinator != after.coordinator:
            for m in Member:
                self._hang_up(m)
                self._leaving.pop(m, None)
                self._committing.pop(m, None)
        if action == "store_assignment":
            self._holders = {m for m in Member if after.belongs[m]}

    def _answered(self, m: Member, s: GroupProtocol) -> None:
        """A request was decided."""
        asked, down = self._asked[m], s.down[m]
        answer: dict[str, Any] = {"error_code": int(ERRORS.get(down, Error.NONE))}
        if down in (GroupAnswer.LEADER, GroupAnswer.FOLLOWER):
            leads = down == GroupAnswer.LEADER
            belong = [{"member_id": name_of(o)} for o in Member if s.belongs[o] and leads]
            answer |= {"generation_id": s.said[m], "members": belong, "leader": name_of(s.leader)}
        if asked.api == "JoinGroup":
            answer["member_id"] = name_of(m)
        if down == GroupAnswer.ASSIGNMENT:
            answer["assignment"] = assignment(p for p in Partition if s.given[m, p])
            answer["plan"] = [
                {
                    "member_id": name_of(o),
                    "assignment": assignment(p for p in Partition if s.owner[p] == o),
                }
                for o in Member
                if s.leader == m and s.belongs[o]
            ]
        asked.answer = answer
        if self._chance.random() < 0.5:
            self._write_asked(m, s)

    def _heard(self, m: Member, asked: Asked, action: str, s: GroupProtocol) -> None:
        """A client awaits nothing any more, or something else: it has heard, or given up."""
        del self._asked[m]
        if action in HEARS and asked.answer is not None and not asked.is_written:
            self._asked[m] = asked
            self._write_asked(m, s)
            del self._asked[m]
        if action not in HEARS:
            self._hang_up(m)

    def _write_asked(self, m: Member, s: GroupProtocol) -> None:
        asked = self._asked[m]
        assert asked.answer is not None
        asked.is_written = True
        answer = dict(asked.answer)
        if asked.api == "JoinGroup":
            known = name_of(m) if asked.known else ""
            request: dict[str, Any] = {"member_id": known, "protocol_type": "consumer"}
        else:
            plan = answer.pop("plan", [])
            request = {
                "member_id": name_of(m), "generation_id": s.at[m], "assignments": plan,
            }  # fmt: skip
        self._write(asked.api, asked.since, asked.connection, request, answer)

    def beats(self, m: Member, before: GroupProtocol, after: GroupProtocol) -> None:
        """A heartbeat is answered."""
        code = Error.NONE
        if not after.has_id[m]:
            code = Error.UNKNOWN_MEMBER_ID
        elif after.rejoin[m]:
            is_over = before.at[m] != before.generation
            code = Error.ILLEGAL_GENERATION if is_over else Error.REBALANCE_IN_PROGRESS
        request = {"member_id": name_of(m), "generation_id": before.at[m]}
        self._write("Heartbeat", self._now, self._at(m), request, {"error_code": int(code)})

    def leaves(self, m: Member, before: GroupProtocol, after: GroupProtocol) -> None:
        """A LeaveGroup is sent."""
        if after.leaving[m] and not before.leaving[m]:
            self._hang_up(m)
            self._leaving[m] = self._now

    def left(self, m: Member, before: GroupProtocol, _after: GroupProtocol) -> None:
        """A LeaveGroup is answered."""
        was_there = before.entry[m].value != "none"
        code = Error.NONE if was_there else Error.UNKNOWN_MEMBER_ID
        since = self._leaving.pop(m, self._now)
        request = {"member_id": name_of(m)}
        self._write("LeaveGroup", since, self._at(m), request, {"error_code": int(code)})

    def commits(self, m: Member, _before: GroupProtocol, _after: GroupProtocol) -> None:
        """An OffsetCommit is sent."""
        self._committing[m] = self._now

    def committed(self, m: Member, before: GroupProtocol, _after: GroupProtocol) -> None:
        """An OffsetCommit is decided, and answered."""
        parts = []
        for p in Partition:
            if before.committing[m, p]:
                is_taken = before.is_member(m) and before.accepts_offset(m, p)
                code = Error.NONE if is_taken else Error.TOPIC_AUTHORIZATION_FAILED
                if not before.is_member(m):
                    code = Error.UNKNOWN_MEMBER_ID
                elif before.commit_at[m] != before.generation:
                    code = Error.ILLEGAL_GENERATION
                parts.append({"partition_index": p.index, "error_code": int(code)})
        request = {
            "member_id": name_of(m), "generation_id_or_member_epoch": before.commit_at[m],
        }  # fmt: skip
        answer = {"topics": [{"name": "t", "partitions": parts}]}
        self._write(
            "OffsetCommit", self._committing.pop(m, self._now), self._at(m), request, answer
        )


Tells = Callable[[AnsweredWalk, Member, GroupProtocol, GroupProtocol], None]
TOLD: Mapping[str, Tells] = {
    "heartbeat": AnsweredWalk.beats, "close": AnsweredWalk.leaves,
    "poll_time_out": AnsweredWalk.leaves, "handle_leave_group": AnsweredWalk.left,
    "commit": AnsweredWalk.commits, "handle_offset_commit": AnsweredWalk.committed,
}  # fmt: skip
HEARS = (
    "learn_member_id", "on_join_leader", "on_join_follower", "on_join_complete",
    "reset_generation", "join_again",
)  # fmt: skip


def assignment(parts: Any) -> str:
    """An assignment's bytes, as a line has them."""
    return base64.b64encode(write_assignment(("t", p.index) for p in parts)).decode()


def walked(spec: Specification, seed: int, steps: int, **sizes: int) -> list[TraceLine]:
    """The lines of a walk."""
    return AnsweredWalk(spec, sizes, seed).run(steps)
