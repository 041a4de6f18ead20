"""
The map of system A's traces to its spec: a table, and what a group's replay remembers.

Consumers tell every step that they take (`tracing.py`); what they ask of ZooKeeper and its answer
are two lines. What nobody tells is supposed where a line could not be without it: that a consumer
was killed or cut off, that its session ended, that a partition appeared.

- A partition is claimed, released and its offset stored by itself; ZooKeeper has done it by the
  time of the answer, or where somebody else's line shows it. Of what was never answered both is
  carried on where a session ends, until an offset that is read tells.
- A rebalance without a reason is one to which a lost connection led, that was soon found again.
- What is planned is told; any plan will do, as in the proof.
- Offsets are ranks, since the spec only compares them; 0 is "none stored".
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from operator import attrgetter

from herdproof.conformance.traces.line import MOST, TraceLine
from herdproof.conformance.traces.mapping import ANY, DecodedLine, Row, TraceMap
from herdproof.conformance.traces.values import Scale, Values
from herdproof.protocols.group_replay import GroupReplay, places
from herdproof.protocols.self_rebalancing.traces.lines import FORMATS
from herdproof.protocols.self_rebalancing.tracing import SELF_REBALANCING
from herdspec.check.conformance.follow import ELSE, Way, differences
from herdspec.language.specification import Specification
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.self_rebalancing.properties import PROVED
from herdspec.protocols.self_rebalancing.replayed import in_replays
from herdspec.protocols.self_rebalancing.spec import SelfRebalancing, Session

State = SelfRebalancing
LIVES = (Session.CONNECTED, Session.SUSPENDED)
TIME = attrgetter("time_ns")


class RebalancingTrace(GroupReplay):
    """One group of one run: what its lines tell beforehand, and what is known as they are read."""

    def __init__(self, values: Values, lines: Sequence[TraceLine]) -> None:
        super().__init__(values)
        self._lines: dict[str, list[TraceLine]] = defaultdict(list)
        """By consumer, its lines."""
        self._asked: dict[tuple[Member, Partition, bool], TraceLine] = {}
        """Lines that ask ZooKeeper for a partition (or its offset), and are not answered yet."""
        self._doubts: dict[tuple[Member, Partition], int] = {}
        """Offsets of which nobody has heard whether they are stored."""
        self._given: set[tuple[Member, Partition]] = set()
        """Releases that somebody else's line has shown before their consumer heard of them."""
        self._latest: dict[Partition, int] = {}
        """The latest token that was told."""
        self._freed_ns: dict[Partition, int] = {}
        self._claimed_ns: dict[tuple[Member, Partition], int] = {}
        """When the last claim of a partition was asked for that is answered."""
        self._sessions: dict[Member, int] = {}
        self._closing: set[Member] = set()
        self._recalled: set[int] = set()
        """Claims, by line, of which their consumer found later that they were done."""
        self._tokens: dict[int, int] = {}
        """By claim's line, its token, if it was ever told."""
        asked: dict[tuple[str, str], TraceLine] = {}
        for line in lines:
            values.element("Member", line.node)
            self._lines[line.node].append(line)
            self._mention(line)
            for name, offset in places(line):
                before = asked.get((line.node, name))
                if line.action in ("claim", "release"):
                    asked[line.node, name] = line
                elif line.action == "recall" and before is not None:
                    self._recalled.add(id(before))
                elif (
                    line.action == "answered" and offset < 0
                    and before is not None and before.action == "claim"
                ):  # fmt: skip
                    self._tokens.setdefault(id(before), line.arguments.get("token", 0))
                elif line.action in ("read_offsets", "commit"):
                    self._stored.setdefault(name, offset if line.action == "read_offsets" else -1)

    def _m(self, told: DecodedLine) -> Member:
        return self._member(told.line.node)

    def wanted(self, line: TraceLine) -> list[str]:
        """Whatever there is: what a subscription concerns shows in the plans."""
        del line
        return list(self._values.names["Partition"])

    def planned(self, line: TraceLine) -> list[str]:
        """The partitions that the line tells."""
        return [name for name, _ in places(line)]

    # ── Sessions ────────────────────────────────────────────────────────────────────────────

    def enters(self, told: DecodedLine) -> None:
        """It has this session now."""
        self._sessions[self._m(told)] = told.line.arguments["session"]

    def starts(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A process: another one than before, if there was one."""
        m = self._m(told)
        return [[]] if s.session[m] is Session.NONE else self._ends(m, s, told.line)

    def registers(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It registers, for the first time; in a new session the spec has it done so already."""
        m, line = self._m(told), told.line
        later = self._next(line)
        if later is not None and later.action == "register":
            return [[]]  # this was in vain
        if s.session[m] is Session.NONE:
            return [[("register", (m, set(self._partitions)))]]
        return [[]] if self._sessions.get(m) == line.arguments["session"] else []

    def suspends(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It has closed its fetchers; others may have shown that its session is over."""
        m = self._m(told)
        if not self._fetches(m, s):
            return [[]]
        return [[("suspend", (m,))], ELSE, [("cut", (m,)), ("suspend", (m,))]]

    def reconnects(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It is heard again, in the same session; what it has claimed meanwhile it will find."""
        m = self._m(told)
        last = ("reconnect", (m,))
        if s.session[m] is Session.SUSPENDED:
            return [[last]]
        return [[*way, last] for way in self._swallowed(m, s, told.line)]

    def _swallowed(self, m: Member, s: State, line: TraceLine) -> Iterable[Way]:
        """A connection was lost, and with it the answers to claims that were done."""
        done = [
            p
            for (who, p, _), asked in self._asked.items()
            if who == m and id(asked) in self._recalled and s.owner[p] != m
        ]
        if not done:
            return [[("cut", (m,))]]
        calls = [("claim", (m, p)) for p in done[:-1]] + [("swallow_claim", (m, done[-1]))]
        owned = {s.owner[p]: p for p in done}.values()  # whose session ends frees all it has
        free = ([way for way in self._frees(p, s, line) if way is not ELSE] for p in owned)
        return [[*(call for way in ways for call in way), *calls] for ways in product(*free)]

    def comes_back(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """Its session is over, and there is a new one."""
        m = self._m(told)
        last = ("handle_new_session", (m,))
        if s.session[m] is Session.EXPIRED:
            return [[last]]
        return [[*way, last] for way in self._ends(m, s, told.line)]

    def _fetches(self, m: Member, s: State) -> bool:
        return any(s.fetching[m, p] for p in self._partitions)

    def _next(self, line: TraceLine) -> TraceLine | None:
        """Its writer's next line."""
        own = self._lines[line.node]
        at = bisect_right(own, line.sequence, key=attrgetter("sequence"))
        return own[at] if at < len(own) else None

    def _ends(self, m: Member, s: State, line: TraceLine) -> list[Way]:
        """Ways in which a consumer's session has ended by then; what it has sent came before."""
        name = list(self._values.names["Member"])[m.index]
        own = self._lines[name]
        at = bisect_right(own, line.time_ns, key=TIME)
        later = own[at] if at < len(own) else None
        over = [("suspend", (m,))] if self._fetches(m, s) and self._is_over(later, line) else []
        cut = [("cut", (m,))] if s.session[m] is Session.CONNECTED else []
        ways: list[Way] = [[*cut, *over, ("expire", (m,))]]
        if later is None or later.sequence == 1 or line.node == name:
            ways = [[("kill", (m,)), ("expire_dead", (m,))], *ways]
            if m in self._closing:
                ways = [[("shutdown", (m,))], ELSE, *ways]
        if s.session[m] is Session.DEAD:
            ways = [[("expire_dead", (m,))]]
        return [
            [*before, *way] if way is not ELSE else ELSE
            for way in ways
            for before in self._done(m, s)
        ]

    def _is_over(self, later: TraceLine | None, line: TraceLine) -> bool:
        """Tells whether a lease was over by then, as its consumer's next line shows."""
        return later is not None and later.arguments.get("until_ns", 0) <= line.time_ns

    def _done(self, m: Member, s: State, only: Partition | None = None) -> list[Way]:
        """The ways in which what a consumer has sent, and nobody has answered, was done, or not."""
        each: list[tuple[Way, Way]] = [
            ([], stores(s, m, p, offset))
            for (who, p), offset in self._doubts.items()
            if who == m and only in (None, p) and offset > s.consumed[m, p]
            if s.registry[m, p] and s.accepts_commit(m, p)
        ]
        return [[call for way in some for call in way] for some in product(*each)]

    # ── The rebalance ───────────────────────────────────────────────────────────────────────

    def closes(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It begins an attempt, for whatever reason."""
        m = self._m(told)
        if s.session[m] is Session.EXPIRED:  # it does not know yet
            yield []
            return
        cut, again, fail = ("cut", (m,)), ("reconnect", (m,)), ("fail_attempt", (m,))
        for before in ([], [again], [cut, again], [fail], [again, fail]):
            yield [*before, ("close_fetchers", (m,))]
            yield ELSE

    def submits(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It begins to store; whose session is over, in vain."""
        m = self._m(told)
        return [[] if s.session[m] is Session.EXPIRED else [("commit_offsets", (m,))]]

    def reads_topics(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """All is released, and the partitions that it tells are there."""
        m = self._m(told)
        appear = [("appear", (p,)) for p, _ in self._places(told.line) if not s.exists[p]]
        for before in self._done(m, s):
            yield [*before, ("release", (m,)), *appear, ("read_topics", (m,))]

    def asks(self, told: DecodedLine) -> None:
        """Something is asked of ZooKeeper; a write that was under way before is in doubt."""
        m, line = self._m(told), told.line
        for p, offset in self._places(line):
            self._asked[m, p, bool(offset)] = line
            if line.action == "commit":
                self._doubts[m, p] = offset

    def is_answered(self, told: DecodedLine) -> bool:
        """Tells whether what is answered was asked; a commit then is in doubt no more."""
        m, ((p, offset),) = self._m(told), self._places(told.line)
        self._answer = self._asked.pop((m, p, bool(offset)), None)
        if self._answer is None:
            return False
        if offset:
            self._doubts.pop((m, p), None)
        elif self._answer.action == "claim":
            self._claimed_ns[m, p] = self._answer.time_ns
        elif self._answer.action == "release":
            self._freed_ns[p] = told.line.time_ns
        outcome, token = told.line.arguments["outcome"], self._tokens.get(id(self._answer), 0)
        self._is_late = token < self._latest.get(p, 0)
        self._latest[p] = max(token, self._latest.get(p, 0))
        return outcome == "done" or (outcome == "no node" and self._answer.action == "release")

    def answered(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It was done."""
        m, ((p, offset),) = self._m(told), self._places(told.line)
        assert self._answer is not None, "what nobody has asked is no step"
        is_done = told.line.arguments["outcome"] == "done"
        match self._answer.action:
            case "release":
                known = (m, p) in self._given or not is_done
                return [*self._gives(m, p, s), *([ELSE, []] if known else [])]
            case "commit":
                return [stores(s, m, p, offset)]
            case "recall":
                return [[("recall", (m, p))], *([[]] if s.holds(m, p) else [])]
            case "claim" if self._is_late:  # somebody else's claim has shown it, or it is none
                return [[]] if s.token[m, p] else []
            case "claim" if is_done and not s.holds(m, p):  # or a refused claim has shown it
                return self._claims(m, p, s, told.line)
        return [[]]

    def _claims(self, m: Member, p: Partition, s: State, line: TraceLine) -> Iterable[Way]:
        """It has claimed a partition, after those whose answers come later than the next claim."""
        ways = [*self._frees(p, s, line)]
        late = [key for key, of in self._asked.items() if self._tokens.get(id(of), 0)]
        for other, q, _ in late:
            is_before = self._tokens[id(self._asked[other, q, False])] < self._latest[p]
            if q == p and is_before and s.session[other] in LIVES:
                ends = [end for end in self._ends(other, s, line) if end is not ELSE]
                before = [way for way in ways if way is not ELSE]
                claims = [("claim", (o, r)) for o, r, _ in late if o == other]
                ways = [[*way, *claims, *end] for way in before for end in ends]
        return [way if way is ELSE else [*way, ("claim", (m, p))] for way in ways]

    def _frees(self, p: Partition, s: State, line: TraceLine) -> Iterable[Way]:
        """Ways in which a partition has become free by then."""
        owner = s.owner[p]
        if owner is None:
            return [[]]
        asked = self._asked.get((owner, p, False))
        if asked is None or asked.action != "release":
            return self._ends(owner, s, line)
        self._given.add((owner, p))
        return [*self._gives(owner, p, s), ELSE, *self._ends(owner, s, line)]

    def _gives(self, m: Member, p: Partition, s: State) -> list[Way]:
        """It gives a partition back, once what it has sent of that is stored, or not."""
        lives = [("reconnect", (m,))] if s.session[m] is Session.SUSPENDED else []
        return [[*before, *lives, ("give_back", (m, p))] for before in self._done(m, s, p)]

    def outcome(self, told: DecodedLine, s: State) -> Sequence[str]:
        """A commit leads to the offset that it tells, or did so before the next claim."""
        m, (p, offset) = self._m(told), next(self._places(told.line))
        is_late = told.line.arguments.get("token", 0) < self._latest.get(p, 0)
        if not offset or (is_late and s.consumed[m, p] == offset):
            return ()
        return differences({"what is stored": (s.committed[p], offset)})

    def refuses(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """Somebody owns it, or has claimed it and does not know; or did, when it was looked at."""
        del s
        m, ((p, _),) = self._m(told), self._places(told.line)
        refused = ("refuse_claim", (m, p))
        yield [refused]
        yield ELSE
        for (other, q, _), line in self._asked.items():
            if other != m and q == p and line.action == "claim":
                yield [("claim", (other, p)), refused]
        if self._freed_ns.get(p, -1) >= self._claimed_ns.get((m, p), MOST):
            yield from (ELSE, [])

    def begins(self, told: DecodedLine, s: State) -> Sequence[str]:
        """From where on it is to be consumed."""
        m = self._m(told)
        told_offsets = dict(self._places(told.line))
        return differences({
            "where it begins": ({p: s.consumed[m, p] for p in told_offsets}, told_offsets)
        })  # fmt: skip

    def closing(self, told: DecodedLine) -> None:
        """It is closed; what follows is stored, and then its session ends."""
        self._closing.add(self._m(told))


def stores(s: State, m: Member, p: Partition, offset: int) -> Way:
    """The offset of one partition is stored, as the rank tells."""
    return [("store", (m, p))] * (offset - s.consumed[m, p])


def strangers(lines: Sequence[TraceLine], at: int) -> str:
    """Whoever, without a trace, may have a partition that is refused, or stored what is read."""
    line = lines[at]
    if line.action == "refuse_claim":
        return "of whoever has the partition that it claims, all lines"
    if line.action != "read_offsets":
        return ""
    told: dict[tuple[str, str], int] = {}
    for topic, number, offset in (p for x in lines[:at] for p in x.arguments.get("partitions", ())):
        told[topic, number] = max(offset, told.get((topic, number), offset))
    read = line.arguments.get("partitions", ())
    is_told = all(offset <= told.get((topic, number), -1) for topic, number, offset in read)
    return "" if is_told else "of whoever has stored the offsets that it reads, all lines"


# ── The table ───────────────────────────────────────────────────────────────────────────────

G = RebalancingTrace
ROWS: Mapping[str, Row] = {
    "(start)": Row(None, ways=G.starts),
    "register": Row(ways=G.registers, note=G.enters),
    "shutdown": Row(None, note=G.closing),
    "suspend": Row(ways=G.suspends),
    "reconnect": Row(ways=G.reconnects),
    "handle_new_session": Row(ways=G.comes_back, note=G.enters),
    "close_fetchers": Row(ways=G.closes),
    "commit_offsets": Row(ways=G.submits),
    "release": Row(None, note=G.asks),
    "read_topics": Row(ways=G.reads_topics),
    "read_ids": Row(arguments={"mine": G.planned}),
    "claim": Row(None, note=G.asks),
    "refuse_claim": Row(ways=G.refuses),
    "recall": Row(None, note=G.asks),
    "read_offsets": Row(claims=G.begins),
    "fail_attempt": Row(("fail_attempt", None)),
    "commit": Row(None, note=G.asks),
    "answered": Row(ways=G.answered, note=G.is_answered, claims=G.outcome),
}


@cache
def map_of(spec: Specification = PROVED) -> TraceMap:
    """The map of the corrected spec, whatever is planned."""
    return TraceMap(
        in_replays(spec), ROWS, protocol=SELF_REBALANCING, group=RebalancingTrace,
        initial=G.initial, arguments={"m": "node", "p": ANY, "wanted": G.wanted},
        ranks={"offset": Scale(zero=-1)}, plain=True, strangers=strangers, formats=FORMATS,
    )  # fmt: skip
