"""
Fills the contract's fields from answers of Kafka's coordinator: no guard, no judgement.

Whoever looks on (`herdproof broker --observe`) sees requests and answers, in the order in which
these are passed on. What an answer tells was so at some moment since its request.

- A generation is one for which somebody was told an assignment. Whose a partition is in it, each
  member's answer tells: who was told nothing of it may be its owner.
- A commit that is answered without an error was taken in the generation that it names, and is
  stored. Of two that overlap nobody knows which came first.
- Offsets may be set without being seen here: where none of a generation's members was one of the
  generation before, and wherever one is told that nobody was seen to commit.
- Who belongs to a generation, and was never seen to join, goes past whoever looks on: from then on
  nothing is known.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from herdproof.conformance.traces.line import TraceLine
from herdproof.consuming.consumer_protocol import read_assignment
from herdproof.errors import Malformed
from herdproof.protocols.group_protocol.judged.entries import GroupEntries, Member, Partition
from herdproof.protocols.group_protocol.messages import Error
from herdspec.check.observation.inconclusive import UNKNOWN, is_lost, possible
from herdspec.check.observation.observed import Observed
from herdspec.protocols.contract.spec import Stage

INITIAL: Mapping[str, Any] = {
    "live": False, "stage": Stage.OPEN, "generation": UNKNOWN, "owner": UNKNOWN, "reported": 0,
    "committing": 0, "accepted": 0, "committed": UNKNOWN,
}  # fmt: skip
"""The fields that answers fill, before anything is told: of coordinators they tell nothing."""
LOST_WITH_LINES = ("live", "stage", "generation", "owner", "accepted", "committed")
REMEMBERED = 16
"""The number of generations that are remembered, whose late answers may still come."""
MANY_LEAVE, MANY_FETCHED = "members", "groups"
"""Fields of newer versions, which have several members, or groups."""


class AnswerFields(GroupEntries):
    """The answers about one group, in their order, as steps of the contract's fields."""

    def __init__(self, seen: Observed) -> None:
        super().__init__(seen)
        self._given: dict[int, dict[str, list[Partition]]] = defaultdict(dict)
        """By generation, what members were told that they are assigned, as far as is foreseen."""
        self._belong: dict[int, set[str]] = {}
        """By generation, its members, as its leader was told."""
        self._begun_ns: dict[int, int] = {}
        """By generation, when the first of these asked to join."""
        self._joined: set[str] = set()
        """Who was given a member id, or has joined with one."""
        self._since_ns = 0
        """When it was first told what is assigned in the present generation."""
        self._last_ns: dict[Partition, int] = {}
        """By partition, when it was last told what is stored."""
        self._untold: set[str] = set()
        self._has_begun = False
        self.is_blind = False
        """True if somebody goes past whoever looks on."""

    def foresee(self, lines: Iterable[TraceLine]) -> None:
        """Note what generations are like, of which an answer tells each a part."""
        for line in lines:
            asked, answer = line.arguments.get("request", {}), line.arguments.get("answer", {})
            error = answer.get("error_code", 0)
            match line.arguments.get("api"):
                case "JoinGroup" if error == Error.MEMBER_ID_REQUIRED.value:
                    self._joined.add(answer["member_id"])
                case "JoinGroup" if not error:
                    self._foresees_join(line, answer)
                case "SyncGroup" if not error:
                    given = self._given[asked["generation_id"]]
                    given[asked["member_id"]] = [*assigned(answer["assignment"])]

    def _foresees_join(self, line: TraceLine, answer: Mapping[str, Any]) -> None:
        generation = answer["generation_id"]
        self._joined.add(answer["member_id"])
        since_ns = min(line.earliest_ns, self._begun_ns.get(generation, line.earliest_ns))
        self._begun_ns[generation] = since_ns
        if answer["members"]:
            self._belong[generation] = {each["member_id"] for each in answer["members"]}

    def take(self, line: TraceLine) -> None:
        """The next answer."""
        tell = ANSWERS.get(line.arguments.get("api", ""))
        if tell is not None:
            tell(self, line, line.arguments["request"], line.arguments["answer"])

    # ── Members ─────────────────────────────────────────────────────────────────────────────

    def join(self, _line: TraceLine, _asked: Any, answer: Mapping[str, Any]) -> None:
        """A member is told of its generation; its leader of all members."""
        if answer["error_code"]:
            return
        generation = answer["generation_id"]
        self.learn("live", self.member(answer["member_id"]), True)
        if answer["members"]:
            members = self._belong.get(generation, set())
            for m in [*self._members]:
                self.learn("live", m, m[0] in members)
            self.is_blind = self.is_blind or not members <= self._joined
        now = self._entries["generation"][()]
        if is_lost(now) or generation > now:
            self._begins(self._begun_ns.get(generation, 0))

    def _begins(self, since_ns: int) -> None:
        self.seen.set("stage", (), Stage.OPEN)
        if not self._has_begun and self.tells is not None:
            self.tells.begins(0, since_ns)
        self._has_begun = True

    def beat(self, line: TraceLine, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """A member hears that it is one no more, or that all are to join anew."""
        m = (asked["member_id"],)
        is_of_now = asked["generation_id"] == _known(self._entries["generation"][()])
        if answer["error_code"] == Error.UNKNOWN_MEMBER_ID.value and m in self._members:
            self._goes(m, "failed")
        elif answer["error_code"] == Error.REBALANCE_IN_PROGRESS.value and is_of_now:
            self._begins(line.earliest_ns)

    def leave(self, _line: TraceLine, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Members have left."""
        for each in answer.get(MANY_LEAVE) or [{**asked, **answer}]:
            m = (each["member_id"],)
            if not each["error_code"] and not answer["error_code"] and m in self._members:
                self._goes(m, "left")

    def _goes(self, m: Member, how: str) -> None:
        if self.tells is not None:
            self.tells.goes(how)
        self.learn("live", m, False)

    # ── Generations ─────────────────────────────────────────────────────────────────────────

    def sync(self, line: TraceLine, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """A member is told what it is assigned."""
        if answer["error_code"]:
            return
        generation, name = asked["generation_id"], asked["member_id"]
        before = self._entries["generation"][()]
        if is_lost(before) or generation > before:
            self._hand_over(line, generation, _known(before))
        elif generation < before:
            if line.earliest_ns <= self._since_ns:
                return  # its answer is late
            self._hand_over(line, generation, before)
        m = self.member(name)
        for topic, number in assigned(answer["assignment"]):
            self.finds_owner(self.partition(topic, int(number)), m)
        self._untold.discard(name)
        if not self._untold:
            self.seen.step()
            self.seen.set("stage", (), Stage.STABLE)

    def _hand_over(self, line: TraceLine, generation: int, before: int | None) -> None:
        """The first answer of a generation: whose partitions are in it, all of its answers tell."""
        members, given = self._belong.get(generation, set()), self._given.get(generation, {})
        owners: dict[Partition, Member] = {}
        for name, parts in given.items():
            for topic, number in parts:
                owners.setdefault(self.partition(topic, int(number)), self.member(name))
        is_all = bool(members) and members <= given.keys()
        if before is None or not members & self._belong.get(before, set()):
            self._may_be_another(generation, before)
        for p in [*self._partitions]:
            self.seen.set("owner", p, owners.get(p, None if is_all else UNKNOWN))
        self.seen.set("generation", (), generation)
        self.seen.set("stage", (), Stage.HANDED)
        self.seen.step()
        self._since_ns, self._untold, self._has_begun = line.time_ns, set(members), False
        for old in sorted(self._given)[:-REMEMBERED]:
            for of in (self._given, self._belong, self._begun_ns):
                of.pop(old, None)

    def _may_be_another(self, generation: int, before: int | None) -> None:
        """The group may have been empty in between: offsets were set back, or it began anew."""
        self._anything_is_stored()
        if before is not None and generation < before:
            self.seen.amend("generation", (), generation)
            for p in self._partitions:
                self.seen.amend("owner", p, UNKNOWN)

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def commit(self, line: TraceLine, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """A member says how far it is; or somebody from outside sets offsets."""
        said = dict(offsets(asked, "committed_offset"))
        generation = asked.get("generation_id_or_member_epoch", -1)
        name = asked.get("member_id", "")
        for where, error in offsets(answer, "error_code"):
            p, offset = self.partition(*where), said[where] + 1
            if self.tells is not None:
                outcome = "refused" if error else "stored"
                self.tells.commits(
                    p, offset - 1, outcome, generation=max(generation, 0) or None,
                    consumer=name or None,
                )  # fmt: skip
            if not error:
                self._stores(line, p, offset, generation, name)

    def _stores(
        self, line: TraceLine, p: Partition, offset: int, generation: int, name: str
    ) -> None:
        if generation < 0:
            self._finds_offset(line, p, offset)
            return
        owners = [who for who, parts in self._given.get(generation, {}).items() if p in parts]
        if not owners:
            self.seen.forget("accepted", p)
        elif name not in owners:
            self.takes(p, offset, name, self.member(owners[0]))
        elif generation == _known(self._entries["generation"][()]):
            self.takes(p, offset, name, self._entries["owner"][p])
        if self._is_unordered(line, p):
            self.seen.widen("committed", p, offset)
        else:
            self.learn("committed", p, offset)
        self._last_ns[p] = line.time_ns

    def fetch(self, line: TraceLine, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Somebody is told what is stored."""
        for group in answer.get(MANY_FETCHED) or [{"group_id": asked.get("group_id"), **answer}]:
            if group["group_id"] != line.group or group.get("error_code"):
                continue
            stored = dict(offsets(group, "committed_offset"))
            for where, error in offsets(group, "error_code"):
                if not error:
                    self._finds_offset(line, self.partition(*where), stored[where] + 1)

    def _finds_offset(self, line: TraceLine, p: Partition, offset: int) -> None:
        """It is what is stored now, whoever has set it."""
        if self._is_unordered(line, p):
            self.seen.forget("committed", p)
            return
        among = possible(self._entries["committed"][p])
        if among is not None and offset not in among:
            self.seen.forget("committed", p)
            self.seen.step()
        self.seen.refine("committed", p, offset)
        self._last_ns[p] = line.time_ns

    def _is_unordered(self, line: TraceLine, p: Partition) -> bool:
        """True if a line may have been asked, and done, before what was told last."""
        return line.earliest_ns <= self._last_ns.get(p, 0)

    def delete(self, _line: TraceLine, _asked: Any, _answer: Any) -> None:
        """Offsets, or groups, may be deleted."""
        self._anything_is_stored()

    def _anything_is_stored(self) -> None:
        """Forget what is stored: it may be anything; what is taken is counted anew."""
        self.seen.forget_all("committed")
        self.seen.set_all("accepted", 0)


def assigned(told: str | None) -> Iterator[Partition]:
    """The partitions of an assignment; none where that cannot be read."""
    try:
        yield from ((topic, str(n)) for topic, n in read_assignment(base64.b64decode(told or "")))
    except Malformed:
        return


def offsets(body: Mapping[str, Any], what: str) -> Iterator[tuple[tuple[str, int], int]]:
    """By topic and number, what is said of each partition."""
    for topic in body["topics"] or ():
        for each in topic["partitions"]:
            yield (topic["name"], each["partition_index"]), each[what]


def _known(value: Any) -> int | None:
    """A number, where it is known."""
    return None if is_lost(value) else value


Tells = Callable[[AnswerFields, TraceLine, Any, Any], None]
ANSWERS: Mapping[str, Tells] = {
    "JoinGroup": AnswerFields.join, "SyncGroup": AnswerFields.sync,
    "Heartbeat": AnswerFields.beat, "LeaveGroup": AnswerFields.leave,
    "OffsetCommit": AnswerFields.commit, "OffsetFetch": AnswerFields.fetch,
    "OffsetDelete": AnswerFields.delete, "DeleteGroups": AnswerFields.delete,
}  # fmt: skip
"""By API, what an answer tells."""
