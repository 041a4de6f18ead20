"""
Connectors' cores on a simulated ZooKeeper, without a network: what is asked is answered in turn.

Nothing happens by itself: `settle` takes what waits, one member after the other, until nothing
does; `cut`, `expire` and `pass_time` disturb.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TypeVar

from herdproof.consuming.assignment import Partition
from herdproof.consuming.events import (
    Answered,
    Ask,
    CommitAsked,
    Consumed,
    Fired,
    Report,
    Resolved,
    Shutdown,
    StartFetchers,
    StopFetchers,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.consuming.offsets import Offset
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.events import (
    ConnectorEffect,
    ConnectorEvent,
    EndSession,
    LinkTold,
)
from herdproof.protocols.self_rebalancing.registries.paths import GroupDirs
from herdproof.protocols.self_rebalancing.registries.registrations import ConsumerRegistration
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.protocols.self_rebalancing.steps import ConnectorStep
from herdproof.simulator.tree import split
from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import (
    Create,
    Delete,
    Link,
    Operation,
    Refusal,
    Set,
    Why,
)

E = TypeVar("E")

TIMEOUT_MS = 6_000
DIRS = GroupDirs("g")
DEFAULT = ConnectorSettings()


class Member:
    """A connector's core with its session; `inbox` and `outbox` wait to be carried."""

    def __init__(self, group: "Group", core: ConsumerConnector) -> None:
        self.group = group
        self.core = core
        self.session = 0
        self.is_cut = True
        self.has_left = False
        self.inbox: deque[ConnectorEvent] = deque()
        self.outbox: deque[Ask] = deque()
        self.effects: list[ConnectorEffect] = []
        self.wakes_ms: int | None = None

    # ── What is told it ─────────────────────────────────────────────────────────────────────

    def give(self, event: ConnectorEvent) -> None:
        """Give the core an event, now."""
        for effect in self.core.receive(event, self.group.now_ms):
            self.effects.append(effect)
            if isinstance(effect, Ask):
                self.outbox.append(effect)
            elif isinstance(effect, WakeAt):
                self.wakes_ms = effect.time_ms
            elif isinstance(effect, EndSession):
                self.has_left = True
                self.outbox.clear()
                self.group.zookeeper.close(self.session)

    def connect(self) -> None:
        """Its client finds a server: in the old session, if that lives, or in a new one."""
        zookeeper = self.group.zookeeper
        if not (self.session and zookeeper.alive(self.session)):
            if self.session:
                self.give(LinkTold(Link.LOST, self.session, TIMEOUT_MS))
            self.session = zookeeper.open()
        self.is_cut = False
        self.give(LinkTold(Link.CONNECTED, self.session, TIMEOUT_MS))

    def cut(self, *, performed: int = 0) -> None:
        """Its connection breaks; of what it has sent, so many operations were done all the same."""
        for ask in [self.outbox.popleft() for _ in range(min(performed, len(self.outbox)))]:
            self.group.zookeeper.perform(self.session, ask.operation, answered=False)
        self.group.zookeeper.lose_connection(self.session)
        self.group.zookeeper.take_events(self.session)
        lost = Refusal(Why.CONNECTION_LOSS)
        self.inbox.clear()
        unanswered, self.outbox = self.outbox, deque()
        self.is_cut = True
        for ask in unanswered:
            self.give(Answered(ask.number, lost))
        self.outbox.clear()
        self.give(LinkTold(Link.SUSPENDED, self.session, TIMEOUT_MS))

    def consume(self, topic: str, partition: str, offset: int) -> None:
        """The application has finished with the records before this offset."""
        self.give(Consumed(Offset(topic, partition, offset), self.core.registry.generation))

    def resolve(self, topic: str, partition: str, offset: int) -> None:
        """The fetchers have found where a partition begins."""
        self.give(Resolved(Offset(topic, partition, offset), self.core.registry.generation))

    def commit(self, number: int, offsets: tuple[Offset, ...] | None = None) -> None:
        """The user's commit."""
        self.give(CommitAsked(number, offsets))

    def close(self) -> None:
        """The user closes it."""
        self.give(Shutdown())

    # ── What it does ────────────────────────────────────────────────────────────────────────

    def carry(self) -> bool:
        """Have one thing that waits happen; False if nothing waits."""
        if self.is_cut or self.has_left:
            return False
        zookeeper = self.group.zookeeper
        for watched in zookeeper.take_events(self.session):
            self.inbox.append(Fired(watched))
        if self.inbox:
            self.give(self.inbox.popleft())
            return True
        if self.outbox:
            ask = self.outbox.popleft()
            answer = zookeeper.perform(self.session, ask.operation)
            for watched in zookeeper.take_events(self.session):
                self.inbox.append(Fired(watched))
            self.inbox.append(Answered(ask.number, answer))
            self.group.requests += 1
            return True
        return False

    def told(self, kind: type[E]) -> list[E]:
        """Its effects of a kind, so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def actions(self) -> list[str]:
        """The names of the steps that it has taken."""
        return [step.action for step in self.told(ConnectorStep)]

    def reports(self) -> list[str]:
        """What it has reported."""
        return [report.what for report in self.told(Report)]

    def why(self, what: str) -> str:
        """The reason of its last report of this kind; empty without one."""
        reasons = [dict(r.details)["why"] for r in self.told(Report) if r.what == what]
        return str(reasons[-1]) if reasons else ""

    def forget(self) -> None:
        """Look only at what comes from now on."""
        self.effects.clear()

    def fetches(self) -> dict[Partition, int]:
        """What its fetchers fetch, and from which offset they began; nothing once closed."""
        last: dict[Partition, int] = {}
        for effect in self.effects:
            if isinstance(effect, StopFetchers):
                last = {}
            elif isinstance(effect, StartFetchers):
                last = {(o.topic, o.partition): o.offset for o in effect.partitions}
        return last


class Group:
    """A group "g", its ZooKeeper, and one broker."""

    connector: type[ConsumerConnector] = ConsumerConnector

    def __init__(
        self, topics: Mapping[str, int], *, has_brokers: bool = True,
        zookeeper: ZooKeeper | None = None,
    ) -> None:  # fmt: skip
        self.zookeeper = zookeeper or ZooKeeper()
        self.operator = self.zookeeper.open()
        self.now_ms = 1_000
        self.requests = 0
        self.members: list[Member] = []
        for path in ("/brokers", "/brokers/topics", "/brokers/ids"):
            self.write(Create(path))
        if has_brokers:
            self.write(Create("/brokers/ids/0"))
        for topic, partitions in topics.items():
            self.write(Create(f"/brokers/topics/{topic}", described(partitions)))

    def member(
        self, name: str, wants: Mapping[str, int] | ConsumerRegistration | None = None,
        settings: ConnectorSettings = DEFAULT,
        kind: type[ConsumerConnector] | None = None,
    ) -> Member:  # fmt: skip
        """A member starts, and connects; it wants a thread of topic "t" unless told otherwise."""
        if not isinstance(wants, ConsumerRegistration):
            wants = ConsumerRegistration(tuple(sorted((wants or {"t": 1}).items())))
        core = (kind or self.connector)("g", name, wants, settings)
        member = Member(self, core)
        self.members.append(member)
        member.give(Subscribe())
        member.connect()
        return member

    def write(self, operation: Operation) -> None:
        """An operator, or a stranger, writes."""
        answer = self.zookeeper.perform(self.operator, operation)
        assert not isinstance(answer, Refusal), f"{operation}: {answer}"

    def make(self, path: str, data: bytes = b"") -> None:
        """A persistent node, with those above it."""
        names = path.split("/")[1:]
        for depth in range(1, len(names)):
            self.zookeeper.perform(self.operator, Create("/" + "/".join(names[:depth])))
        self.write(Create(path, data))

    def stranger(self, path: str, data: bytes = b"") -> int:
        """Somebody else's ephemeral node, and with it the session that ends it."""
        session = self.zookeeper.open()
        above, _ = split(path)
        for depth in range(1, len(above.split("/"))):
            self.zookeeper.perform(session, Create("/".join(above.split("/")[: depth + 1])))
        answer = self.zookeeper.perform(session, Create(path, data, ephemeral=True))
        assert not isinstance(answer, Refusal), f"{path}: {answer}"
        return session

    def settle(self, *only: Member) -> None:
        """Carry all that waits, of these members or of all, until nothing does."""
        members = only or self.members
        while sum(member.carry() for member in members):
            pass

    def pass_time(self, ms: int) -> None:
        """Time goes by; whoever wants to be woken is, and then everything settles."""
        end = self.now_ms + ms
        while True:
            due = [m.wakes_ms for m in self.members if m.wakes_ms is not None and not m.has_left]
            if not due or min(due) > end:
                break
            self.now_ms = max(self.now_ms, min(due))
            for member in self.members:
                if member.wakes_ms is not None and member.wakes_ms <= self.now_ms:
                    member.wakes_ms = None
                    member.give(Tick())
            self.settle()
        self.now_ms = end

    # ── What ZooKeeper has ──────────────────────────────────────────────────────────────────

    def data(self, path: str) -> bytes | None:
        """What a node says; None if it does not stand."""
        found = self.zookeeper.tree().get(path)
        return found[0] if found else None

    def owners(self, topic: str = "t") -> dict[str, str]:
        """The owner of each partition of a topic that has one."""
        above = f"/consumers/g/owners/{topic}/"
        tree = self.zookeeper.tree().items()
        return {p.removeprefix(above): d.decode() for p, (d, _) in tree if p.startswith(above)}

    def stored(self, topic: str, partition: str) -> int | None:
        """A partition's stored offset."""
        data = self.data(DIRS.offset((topic, partition)))
        return None if data is None else int(data)

    def store(self, topic: str, partition: str, offset: int) -> None:
        """An operator stores an offset."""
        path = DIRS.offset((topic, partition))
        if self.data(path) is not None:
            self.write(Set(path, str(offset).encode()))
            return
        self.make(path, str(offset).encode())

    def delete(self, path: str) -> None:
        """An operator deletes a node."""
        self.write(Delete(path))


def described(partitions: int) -> bytes:
    """A topic's node."""
    inside = ",".join(f'"{number}":[0]' for number in range(partitions))
    return f'{{"version":1,"partitions":{{{inside}}}}}'.encode()


def shares(members: Iterable[Member]) -> list[int]:
    """How many partitions each fetches."""
    return [len(member.fetches()) for member in members]
