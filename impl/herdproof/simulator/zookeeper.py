"""
A ZooKeeper that lives in one process: deterministic, synchronous, without clock, thread or chance.

It performs the very operations that the real service performs (`herdproof.zookeeper.operations`)
and answers alike: `integration/zookeeper/test_simulated_zookeeper_twin.py` has the same histories
run on both. What a network does is the caller's part: it takes the watch events of a session
(`take_events`) and brings them to the client before any later answer, as ZooKeeper's one connection
per session does.
The commonest fault, "it was done, the reply was lost", is an answer that the caller drops.

Every value in here is immutable and shared, so that `snapshot` and `restore` cost a microsecond.

Source: the ZooKeeper 3.9 programmer's guide; for what it leaves open, the server's `DataTree`,
`WatchManager` and `FinalRequestProcessor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from herdproof.simulator.tree import SEED, Draft, Nodes
from herdproof.zookeeper.names import lineage
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Create,
    Data,
    Delete,
    Done,
    Exists,
    Found,
    Get,
    Multi,
    Names,
    NodeChange,
    Operation,
    Refusal,
    Set,
    Stat,
    Sync,
    Synced,
    Watched,
    Why,
    misfitting,
)

NOTHING: frozenset[str] = frozenset()


class SessionState(NamedTuple):
    """The state that the service keeps for one session."""

    alive: bool = True
    data_watches: frozenset[str] = NOTHING
    """Paths whose creation, change or deletion will be told, once."""
    child_watches: frozenset[str] = NOTHING
    """Paths whose change of children, or deletion, will be told, once."""
    events: tuple[Watched, ...] = ()
    """Watch events that were sent, and that the caller has not taken yet."""
    view: Nodes | None = None
    """The older tree that a lagging server reads from; None where the server is up to date."""
    missed: tuple[Watched, ...] = ()
    """Changes since `view`, in order: the lagging server has not applied them yet."""

    def told(self, changes: tuple[Watched, ...]) -> SessionState:
        """The session after its server applied these changes: watches fire, each once."""
        data, child = self.data_watches, self.child_watches
        fired = []
        for change in changes:
            by_data = change.change is not NodeChange.CHILDREN and change.path in data
            by_child = (
                change.change in (NodeChange.CHILDREN, NodeChange.DELETED) and change.path in child
            )
            data = data - {change.path} if by_data else data
            child = child - {change.path} if by_child else child
            fired += [change] if by_data or by_child else []  # one event, even for two watches
        if not fired:
            return self
        return self._replace(data_watches=data, child_watches=child, events=(*self.events, *fired))


class ServiceSnapshot(NamedTuple):
    """All of a `ZooKeeper`'s state; two that are equal behave alike for ever."""

    nodes: Nodes
    sessions: Mapping[int, SessionState]
    zxid: int


class ZooKeeper:
    """
    The service, its sessions, and the leader's tree.

    Methods that take a session raise `ValueError` if it was never opened.
    """

    draft: type[Draft] = Draft
    """The class of transactions: here a planted mistake goes in."""

    def __init__(self) -> None:
        """A new service: only the root stands, no session is open."""
        self._nodes: Nodes = SEED
        self._sessions: Mapping[int, SessionState] = {}
        self._zxid = 0

    # Sessions

    def open(self) -> int:
        """Open a session and answer its id; ids count from 1."""
        session = len(self._sessions) + 1
        self._sessions = {**self._sessions, session: SessionState()}
        return session

    def close(self, session: int) -> None:
        """The client ends its session: its ephemerals go, nothing if it was over already."""
        self._end(session)

    def expire(self, session: int, *, told: bool = False) -> None:
        """
        The service ends a session: its ephemerals go, the client does not know that it is over.

        Where its connection still stands it is `told` what its own watches saw of that: the service
        ends a session's nodes first, its connection then.
        """
        self._end(session, told=told)

    def alive(self, session: int) -> bool:
        """Tells whether the service still knows this session."""
        return self._session(session).alive

    def lose_connection(self, session: int) -> None:
        """
        The connection breaks: the session's watches are gone, the session lives on.

        Events that were sent stay with the client. A server that lagged still lags when the client
        is back: it may have come back to the same one.
        """
        state = self._session(session)
        self._put(session, state._replace(data_watches=NOTHING, child_watches=NOTHING))

    def take_events(self, session: int) -> tuple[Watched, ...]:
        """The watch events sent to this session since they were last taken, in order."""
        state = self._session(session)
        if state.events:
            self._put(session, state._replace(events=()))
        return state.events

    # Servers that lag

    def fall_behind(self, session: int) -> None:
        """Let the session's server apply nothing from now on; one that lags stays as it is."""
        state = self._session(session)
        if state.view is None:
            self._put(session, state._replace(view=self._nodes))

    def catch_up(self, session: int) -> None:
        """
        The session's server applies what it missed, one change after the other.

        So a watch that was set on the old view fires for the first change since, even if a later
        one undid it.
        """
        state = self._session(session)
        if state.view is not None:
            self._put(session, state._replace(view=None, missed=()).told(state.missed))

    # Operations

    def perform(self, session: int, operation: Operation, *, answered: bool = True) -> Answer:
        """
        Do one operation of a session.

        A write, refused or not, is answered through the session's own server after that has
        applied it: so a server that lags catches up first. Reads of a lagging server are old.
        A write that was done but is not `answered` (the connection broke, or the answer is still
        on its way) says nothing of that server: it lags on.
        """
        misfit = misfitting(operation)
        if misfit is not None:
            return misfit  # by the client's own library, which does not send it
        if not self.alive(session):
            return Refusal(Why.SESSION_EXPIRED)
        match operation:
            case Exists() | Get() | Children():
                return self._read(session, operation)
            case Sync():
                self.catch_up(session)
                return Synced()
            case _:
                if answered:
                    self.catch_up(session)
                return self._write(session, operation)

    def make(self, session: int, path: str, data: bytes = b"") -> None:
        """Make a persistent node, and those that are missing above it."""
        for above in [*lineage(path)][:0:-1]:
            self.perform(session, Create(above))
        self.perform(session, Create(path, data))

    def tree(self) -> Mapping[str, tuple[bytes, Stat]]:
        """The leader's truth: data and metadata of every node, by path."""
        return {path: (node.data, node.stat()) for path, node in self._nodes.items()}

    # Going back

    def snapshot(self) -> ServiceSnapshot:
        """All of the state, to come back to; costs nothing, as states share what they can."""
        return ServiceSnapshot(self._nodes, self._sessions, self._zxid)

    def restore(self, snapshot: ServiceSnapshot) -> None:
        """Go back (or forth) to a snapshot, of this or of another `ZooKeeper`."""
        self._nodes, self._sessions, self._zxid = snapshot

    # Inside

    def _read(self, session: int, operation: Exists | Get | Children) -> Answer:
        """Answer from what the session's server sees; only `Exists` watches what is not there."""
        state = self._session(session)
        node = (self._nodes if state.view is None else state.view).get(operation.path)
        if operation.watch and (node is not None or isinstance(operation, Exists)):
            self._watch(session, state, operation)
        match operation:
            case Exists():
                return Found(None if node is None else node.stat())
            case _ if node is None:
                return Refusal(Why.NO_NODE)
            case Get():
                return Data(node.data, node.stat())
            case Children():
                return Names(tuple(sorted(node.children)))

    def _watch(self, session: int, state: SessionState, operation: Exists | Get | Children) -> None:
        """Leave a watch; a second one on the same path changes nothing."""
        if isinstance(operation, Children):
            state = state._replace(child_watches=state.child_watches | {operation.path})
        else:
            state = state._replace(data_watches=state.data_watches | {operation.path})
        self._put(session, state)

    def _write(self, session: int, operation: Create | Delete | Set | Multi) -> Answer:
        """Draft a transaction, and let it be the truth if nothing in it is refused."""
        draft = self.draft(self._nodes, zxid=self._zxid + 1, session=session)
        answer: Answer
        if isinstance(operation, Multi):
            answer = self._draft_all(draft, operation)
        else:
            answer = draft.write(operation)
        if not isinstance(answer, Refusal):
            self._commit(draft)
        return answer

    def _draft_all(self, draft: Draft, operations: Multi) -> Done | Refusal:
        """Draft one operation after the other; the first that is refused is to blame."""
        answers = []
        for index, operation in enumerate(operations.operations):
            answer = draft.part(operation)
            if isinstance(answer, Refusal):
                return Refusal(answer.why, index)
            answers.append(answer)
        return Done(tuple(answers))

    def _commit(self, draft: Draft) -> None:
        """The draft becomes the truth; every server that does not lag applies it at once."""
        self._nodes = draft.nodes
        self._zxid += 1
        for session, state in self._sessions.items():
            if state.alive:
                self._tell(session, tuple(draft.changes))

    def _tell(self, session: int, changes: tuple[Watched, ...]) -> None:
        """Apply changes at the session's server, or leave them to it for later."""
        state = self._session(session)
        if state.view is not None:
            self._put(session, state._replace(missed=state.missed + changes))
        elif state.data_watches or state.child_watches:
            self._put(session, state.told(changes))

    def _end(self, session: int, *, told: bool = False) -> None:
        """One transaction deletes what the session owned; it is told of nothing after that."""
        if not self.alive(session):
            return
        if not told:
            self._put(session, SessionState(alive=False, events=self._session(session).events))
        draft = self.draft(self._nodes, zxid=self._zxid + 1, session=session)
        for path in sorted(path for path, node in self._nodes.items() if node.owner == session):
            draft.delete(path)
        self._commit(draft)
        if told:
            self._put(session, SessionState(alive=False, events=self._session(session).events))

    def _session(self, session: int) -> SessionState:
        """A session's state."""
        try:
            return self._sessions[session]
        except KeyError:
            raise ValueError(
                f"session {session} was never opened (known: 1 to {len(self._sessions)});"
                " use an id that open() answered"
            ) from None

    def _put(self, session: int, state: SessionState) -> None:
        """Replace a session's state; snapshots keep the old one."""
        self._sessions = {**self._sessions, session: state}
