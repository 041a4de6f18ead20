"""
Slush, the simplest of the Avalanche protocols: nodes ask a sample of the others for their colour.

After `specifications/SlushProtocol/Slush.tla` of the TLA+ examples (Helwer), at the constants of
`SlushSmall.cfg`: three nodes, one round, a sample of two, a threshold of two. A node is a process
that asks (its loop) and one that answers (its query process); the state is theirs, with program
counters, and a set of messages that are consumed. With three nodes the sample is both others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from herdspec import (
    Sort,
    Spec,
    action,
    always,
    each,
    empty,
    require,
    sometimes,
    specification,
)


class Node(Sort):
    """A node. There are three."""


class Colour(Enum):
    """What the nodes choose between."""

    RED = "red"
    BLUE = "blue"


class Answering(Enum):
    """Where the query process of a node stands."""

    LOOP = "QueryReplyLoop"
    WAIT = "WaitForQueryMessageOrTermination"
    RESPOND = "RespondToQueryMessage"
    DONE = "Done"


class Asking(Enum):
    """Where the loop process of a node stands."""

    REQUIRE_COLOUR = "RequireColorAssignment"
    LOOP = "ExecuteSlushLoop"
    QUERY = "QuerySampleSet"
    TALLY = "TallyQueryReplies"
    TERMINATE = "SlushLoopTermination"
    DONE = "Done"


class Assigning(Enum):
    """Where the client, which colours the nodes, stands."""

    LOOP = "ClientRequestLoop"
    ASSIGN = "AssignColorToNode"
    DONE = "Done"


@dataclass(frozen=True)
class Message:
    """A query or a reply: from whom, to whom, and the sender's colour."""

    source: Node
    target: Node
    colour: Colour


class Slush(Spec):
    """Nodes come to a colour by asking others for theirs."""

    colour: dict[Node, Colour | None] = each(None)
    queries: set[Message] = empty()
    replies: set[Message] = empty()
    ended: set[Node] = empty()  # the messages of termination
    answering: dict[Node, Answering] = each(Answering.LOOP)
    asking: dict[Node, Asking] = each(Asking.REQUIRE_COLOUR)
    assigning: Assigning = Assigning.LOOP
    sample: set[tuple[Node, Node]] = empty()  # (n, m): n has asked m
    rounds: dict[Node, bool] = each(False)  # the loop variant: one round is over

    def terminated(self) -> bool:
        """All loops have ended, and no other message is under way."""
        return (
            all(n in self.ended for n in Node) and len(self.queries) == 0 and len(self.replies) == 0
        )

    # ── The client ──────────────────────────────────────────────────────────────────────────

    @action
    def look_for_a_plain_node(self) -> None:
        """The client looks whether a node has no colour."""
        require(self.assigning == Assigning.LOOP)
        if any(self.colour[n] is None for n in Node):
            self.assigning = Assigning.ASSIGN
        else:
            self.assigning = Assigning.DONE

    @action
    def assign(self, n: Node, colour: Colour) -> None:
        """The client colours {n} {colour}, unless it has a colour."""
        require(self.assigning == Assigning.ASSIGN)
        self.assigning = Assigning.LOOP
        if self.colour[n] is None:
            self.colour[n] = colour

    # ── The query process ───────────────────────────────────────────────────────────────────

    @action
    def begin_to_answer(self, n: Node) -> None:
        """{n} is ready to answer, or ends."""
        require(self.answering[n] == Answering.LOOP)
        self.answering[n] = Answering.DONE if self.terminated() else Answering.WAIT

    @action
    def wait_for_a_query(self, n: Node) -> None:
        """{n} sees a query, or the end."""
        require(self.answering[n] == Answering.WAIT)
        require(any(m.target == n for m in self.queries) or self.terminated())
        self.answering[n] = Answering.LOOP if self.terminated() else Answering.RESPOND

    @action
    def respond(self, n: Node, source: Node, colour: Colour) -> None:
        """{n} answers the query ({colour}) of {source}, whose colour it takes if it has none."""
        require(self.answering[n] == Answering.RESPOND)
        require(Message(source=source, target=n, colour=colour) in self.queries)
        self.answering[n] = Answering.LOOP
        if self.colour[n] is None:
            self.colour[n] = colour
        self.queries.discard(Message(source=source, target=n, colour=colour))
        for mine in Colour:
            if self.colour[n] == mine:
                self.replies.add(Message(source=n, target=source, colour=mine))

    # ── The loop process ────────────────────────────────────────────────────────────────────

    @action
    def see_the_own_colour(self, n: Node) -> None:
        """{n} has a colour."""
        require(self.asking[n] == Asking.REQUIRE_COLOUR and self.colour[n] is not None)
        self.asking[n] = Asking.LOOP

    @action
    def loop(self, n: Node) -> None:
        """{n} begins a round, or ends."""
        require(self.asking[n] == Asking.LOOP)
        self.asking[n] = Asking.TERMINATE if self.rounds[n] else Asking.QUERY

    @action
    def query(self, n: Node) -> None:
        """{n} asks both others."""
        require(self.asking[n] == Asking.QUERY)
        self.asking[n] = Asking.TALLY
        for other in Node:
            if other != n:
                self.sample.add((n, other))
                for mine in Colour:
                    if self.colour[n] == mine:
                        self.queries.add(Message(source=n, target=other, colour=mine))

    @action
    def tally(self, n: Node) -> None:
        """{n} has the answers, and takes the colour that both others have, if it is one."""
        require(self.asking[n] == Asking.TALLY)
        require(
            all(
                (n, other) not in self.sample
                or any(m.source == other and m.target == n for m in self.replies)
                for other in Node
            )
        )
        if all(n == other or self.told(n, other, Colour.RED) for other in Node):
            self.colour[n] = Colour.RED
        elif all(n == other or self.told(n, other, Colour.BLUE) for other in Node):
            self.colour[n] = Colour.BLUE
        for other in Node:
            for mine in Colour:
                self.replies.discard(Message(source=other, target=n, colour=mine))
            self.sample.discard((n, other))
        self.rounds[n] = True
        self.asking[n] = Asking.LOOP

    def told(self, n: Node, other: Node, colour: Colour) -> bool:
        """The other has told the node this colour."""
        return Message(source=other, target=n, colour=colour) in self.replies

    @action
    def end(self, n: Node) -> None:
        """{n} tells that its loop has ended."""
        require(self.asking[n] == Asking.TERMINATE)
        self.ended.add(n)
        self.asking[n] = Asking.DONE

    @action
    def rest(self) -> None:
        """All is done, and stays so."""
        require(self.assigning == Assigning.DONE)
        require(all(self.answering[n] == Answering.DONE for n in Node))
        require(all(self.asking[n] == Asking.DONE for n in Node))


@always
def who_asks_has_a_colour(s: Slush) -> bool:
    """Only coloured nodes ask."""
    return all(s.asking[n] == Asking.REQUIRE_COLOUR or s.colour[n] is not None for n in Node)


@sometimes
def all_agree(s: Slush) -> bool:
    """All is done, and all nodes are red."""
    return all(s.asking[n] == Asking.DONE and s.colour[n] == Colour.RED for n in Node)


SLUSH = specification(Slush, who_asks_has_a_colour, all_agree)
