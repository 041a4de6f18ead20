"""
Answers that coordinators' lines tell, to which is held what clients' lines say they heard.

Answers of one member and generation are the same whenever they are given, so that nothing depends
on clocks. Where no line tells of one, there are three cases. The coordinator's lines are whole from
before to after, and it was no zombie (it stored something later, which the fence would have
refused): then nobody else can have told of a generation, or of an offset, beyond what it had found
stored, and the client's line is wrong. Or they are not: then a line is missing. Or no coordinator
traces at all: then the client is held to its own steps alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from herdproof.conformance.traces.groups import Missing
from herdproof.conformance.traces.line import START, TraceLine
from herdproof.protocols.group_protocol.messages import NO_OFFSET
from herdproof.protocols.group_protocol.steps import DONE, TOLD
from herdproof.protocols.group_protocol.tracing import CONSUMER

JOINED = ("on_join_leader", "on_join_follower")
Generation = tuple[str, int]
"""A member, and its generation."""
Place = tuple[str, int]
"""A topic, and the number of a partition."""


@dataclass
class TracedReign:
    """A broker has loaded the group, and has coordinated it until it stored something last."""

    since: int
    until: int = -1
    generation: int = 0
    """The generation that it found."""
    offsets: dict[Place, int] = field(default_factory=dict)
    """The offsets that it found."""


class Answers:
    """Of one group: lines are in order, by whose places in it time is counted."""

    def __init__(self, lines: Sequence[TraceLine]) -> None:
        self.is_told = False
        """A coordinator traces."""
        self._ids: set[str] = set()
        self._generations: dict[Generation, int] = {}
        """Each with the place of the line that tells it first."""
        self._leaders: dict[int, set[str]] = {}
        """Of each generation, the leader's member id, and those of its next lives."""
        self._heirs: set[tuple[int, str]] = set()
        """Generations, each with a next life that leads it if it is stored, heard of or not."""
        self._back: dict[str, str] = {}
        """By broker, the member id of the static member that has come back to it last."""
        self._asking: dict[tuple[str, int], tuple[str, TraceLine]] = {}
        """By broker and number: lines that ask for a generation, or a next life, to be stored."""
        self._shares: dict[Generation, set[Place]] = {}
        self._offsets: set[tuple[Place, int]] = set()
        self._kept: dict[int, set[Place]] = {}
        """By line of who begins to consume, the partitions that it only goes on with."""
        self._reigns: list[TracedReign] = []
        self._at = {id(line): place for place, line in enumerate(lines)}
        reigning: dict[str, TracedReign] = {}
        for place, line in enumerate(lines):
            if line.role != CONSUMER:
                self.is_told = True
                self._take(place, line)
                self._reign(place, line, reigning)
        self._follow_clients(lines)

    def _take(self, place: int, line: TraceLine) -> None:
        of = line.arguments
        outcome, generation = of.get("outcome", ""), of.get("generation", 0)
        match line.action:
            case "handle_join_group" if outcome == "MEMBER_ID_REQUIRED":
                self._ids.add(of["member"])
            case "handle_join_group" if outcome == TOLD:
                self._generations.setdefault((of["member"], generation), place)
            case "answer_joins":
                for name in of.get("members", ()):
                    self._generations.setdefault((name, generation), place)
            case "complete_join" | "replace_member" if "number" in of:
                self._ask(line)
            case "complete_join" | "found" if "leader" in of:
                self._leads(generation, of["leader"])
            case "replace_member":
                self._back[line.node] = of["member"]
            case "answered" if (line.node, of["number"]) in self._asking:
                self._stored(place, line)
            case "handle_sync_group" if outcome == TOLD:
                self._share([of["member"]], line)
            case "answer_syncs":
                self._share(of.get("members", ()), line)
            case "handle_offset_fetch":
                self._offsets.update(marks(line).items())

    def _ask(self, line: TraceLine) -> None:
        """A generation, or a next life, is to be stored; whether it was, perhaps nobody hears."""
        of, back = line.arguments, ""
        if line.action == "replace_member":
            back = self._back.get(line.node, "")
            if of.get("leader") == back:
                self._heirs.add((of["generation"], back))
        self._asking[line.node, of["number"]] = back, line

    def _leads(self, generation: int, leader: str) -> None:
        """Who leads a generation; beside whoever did, if it is a next life of that."""
        if (generation, leader) in self._heirs:
            self._leaders.setdefault(generation, set()).add(leader)
        elif leader not in self._leaders.get(generation, ()):
            self._leaders[generation] = {leader}

    def _stored(self, place: int, line: TraceLine) -> None:
        """A next life that is stored is told the generation of its former one, and may lead it."""
        back, asking = self._asking.pop((line.node, line.arguments["number"]))
        of = asking.arguments
        if line.arguments["outcome"] != DONE or "leader" not in of:
            return
        if not back:
            self._leads(of["generation"], of["leader"])
            return
        self._generations.setdefault((back, of["generation"]), place)
        self._leaders.setdefault(of["generation"], set()).add(of["leader"])

    def _share(self, members: Sequence[str], line: TraceLine) -> None:
        generation = line.arguments.get("generation", 0)
        for name in members:
            self._shares[name, generation] = places(line, name)

    def _reign(self, place: int, line: TraceLine, reigning: dict[str, TracedReign]) -> None:
        node = line.node
        match line.action:
            case "load_group":
                reigning[node] = TracedReign(place)
                self._reigns.append(reigning[node])
            case "found" if node in reigning:
                reigning[node].generation = line.arguments.get("generation", 0)
                reigning[node].offsets = marks(line)
            case "answered" if node in reigning and line.arguments["outcome"] == DONE:
                reigning[node].until = place
            case action if action in (START, "step_down"):
                reigning.pop(node, None)
                for key in [key for key in self._asking if key[0] == node]:
                    del self._asking[key]

    def _follow_clients(self, lines: Sequence[TraceLine]) -> None:
        """Of all that a client has, it has asked only where that begins which it did not keep."""
        started: dict[str, set[Place]] = {}
        for line in lines:
            if line.role != CONSUMER:
                continue
            has = started.setdefault(line.node, set())
            if line.action == START:
                has.clear()
            elif line.action in ("initiate_join_group", "on_join_complete"):
                has &= places(line, heard_by(line)[0])
            elif line.action == "update_fetch_positions":
                self._kept[id(line)], started[line.node] = has, {*marks(line)}

    # ── What a client has heard ─────────────────────────────────────────────────────────────

    def differs(self, line: TraceLine) -> Mapping[str, tuple[object, object]]:
        """The answers that the line says otherwise: what was told, and what it says."""
        if not self.is_told:
            return {}
        me, generation = heard_by(line)
        shown: dict[str, tuple[object, object]] = {}
        if line.action in JOINED:
            told = (me, generation) in self._generations
            shown["whether it was told of that generation"] = told, told or self._known(line)
            if generation in self._leaders:
                leads = me in self._leaders[generation]
                shown["whether it leads"] = leads, line.action == "on_join_leader"
        elif line.action == "on_join_complete":
            given = self._shares.get((me, generation))
            if given is not None:
                shown["what it was given"] = sorted(given), sorted(places(line, me))
            elif self._known(line):
                shown["whether it was given anything in that generation"] = False, True
        elif line.action == "update_fetch_positions":
            shown |= {
                f"whether it was told {offset} of {topic}-{number}": (False, True)
                for (topic, number), offset in self._unheard(line)
                if self._is_false(line, (topic, number), offset)
            }
        return shown

    def missing(self, line: TraceLine) -> str:
        """The answer that the line claims, and that no line tells, or denies; else nothing."""
        if not self.is_told or self.differs_at(line):
            return ""
        me, generation = heard_by(line)
        match line.action:
            case action if action in JOINED and (me, generation) not in self._generations:
                return f"generation {generation} to {me}"
            case "on_join_complete" if (me, generation) not in self._shares:
                return f"what {me} is assigned in generation {generation}"
            case "update_fetch_positions" if unheard := self._unheard(line):
                (topic, number), offset = unheard[0]
                return f"the offset {offset} of {topic}-{number}"
        return ""

    def is_odd(self, line: TraceLine) -> bool:
        """True if a line says another member id, or generation, than was told by then, and last."""
        me, generation = heard_by(line)
        if line.action == "learn_member_id":
            return self.is_told and me not in self._ids
        at = self._at[id(line)]
        by_then = {g: k for (name, g), k in self._generations.items() if name == me and k < at}
        return self.is_told and generation != max(by_then, key=by_then.__getitem__, default=None)

    def differs_at(self, line: TraceLine) -> bool:
        """True if anything was told otherwise than the line says."""
        return any(told != said for told, said in self.differs(line).values())

    def _known(self, line: TraceLine) -> bool:
        """True if all would be known that was told of the generation that a line says."""
        _, generation = heard_by(line)
        return any(generation > reign.generation for reign in self._around(line))

    def _is_false(self, line: TraceLine, where: Place, offset: int) -> bool:
        """True if all would be known that was told of an offset that high."""
        return any(offset > each.offsets.get(where, NO_OFFSET) for each in self._around(line))

    def _around(self, line: TraceLine) -> Iterator[TracedReign]:
        at = self._at[id(line)]
        return (reign for reign in self._reigns if reign.since < at < reign.until)

    def _unheard(self, line: TraceLine) -> list[tuple[Place, int]]:
        kept = self._kept[id(line)]
        return [
            (where, offset) for where, offset in marks(line).items()
            if where not in kept and (where, offset) not in self._offsets
        ]  # fmt: skip


def heard_by(line: TraceLine) -> Generation:
    """Whose line it is, and of which generation."""
    return line.arguments.get("member", ""), line.arguments.get("generation", 0)


def marks(line: TraceLine) -> dict[Place, int]:
    """The offsets that a line tells."""
    return {(topic, n): offset for topic, n, offset in line.arguments.get("offsets", ())}


def places(line: TraceLine, name: str) -> set[Place]:
    """The partitions that a line gives to a member."""
    return {(topic, n) for who, topic, n in line.arguments.get("owners", ()) if who == name}


def untold(lines: Sequence[TraceLine]) -> Iterator[Missing]:
    """The lines of coordinators that must be missing: clients say that they were told more."""
    of: dict[str, list[TraceLine]] = {}
    for line in lines:
        of.setdefault(line.group, []).append(line)
    everywhere = of.pop("", [])
    at = {id(line): place for place, line in enumerate(lines)}
    for group, own in of.items():
        if any(line.role == CONSUMER for line in own):
            together = sorted([*everywhere, *own], key=lambda line: at[id(line)])
            answers = Answers(together)
            for line in own:
                if line.role == CONSUMER and (what := answers.missing(line)):
                    why = f"no coordinator's line tells {what}, which {line.node} was told"
                    yield Missing(f"{why} ({line.place})", at[id(line)], frozenset({group}))
