"""What `herdproof.zookeeper.client` promises, on a real ZooKeeper."""

from __future__ import annotations

import logging
import re
import socket
import struct
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from msgspec.structs import replace

from herdproof.zookeeper.client import (
    Client,
    WouldDeadlock,
    ZooKeeperUnreachable,
    expire_session,
)
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import (
    Answer,
    Changed,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    Done,
    Exists,
    Found,
    Get,
    Link,
    Multi,
    Names,
    NodeChange,
    Operation,
    Refusal,
    Set,
    Sync,
    Synced,
    Watched,
    Why,
)
from herdproof.zookeeper.proxy import FaultProxy
from integration.clients import TestClient, connected, eventually, new_root

pytestmark = pytest.mark.real

LOST_CONNECTION = Refusal(Why.CONNECTION_LOSS)


@pytest.fixture
def root(zookeeper: EmbeddedZooKeeper) -> str:
    """A node for this test alone."""
    return new_root(zookeeper)


@pytest.fixture
def client(zookeeper: EmbeddedZooKeeper) -> Iterator[TestClient]:
    """A client with a direct line to the server."""
    with connected(zookeeper.hosts) as direct:
        yield direct


@pytest.fixture
def remote(proxy: FaultProxy) -> Iterator[TestClient]:
    """A client behind the proxy."""
    with connected(proxy.hosts) as behind:
        yield behind


def test_each_operation_has_its_answer(client: TestClient, root: str) -> None:
    """Each operation is answered in the words of `operations`."""
    node = f"{root}/a"

    assert client.perform(Create(node, b"1")) == Created(node)
    assert client.perform(Children(root)) == Names(("a",))
    changed = client.perform(Set(node, b"22", version=0))
    assert isinstance(changed, Changed)
    assert (changed.stat.version, changed.stat.data_length) == (1, 2)
    assert client.perform(Get(node)) == Data(b"22", changed.stat)
    assert client.perform(Exists(node)) == Found(changed.stat)
    assert client.perform(Sync(node)) == Synced()
    assert client.perform(Delete(node, version=1)) == Deleted()
    assert client.perform(Exists(node)) == Found(None)


def test_a_stat_tells_who_owns_a_node_and_which_transactions_made_it(
    client: TestClient, root: str
) -> None:
    """A stat has the owner's session and the zxids of the transactions, as `last_zxid` has them."""
    client.perform(Create(f"{root}/a", b"1", ephemeral=True))
    created = client.last_zxid
    client.perform(Set(f"{root}/a", b"2"))
    changed = client.last_zxid

    found = client.perform(Exists(f"{root}/a"))

    assert isinstance(found, Found)
    assert found.stat is not None
    assert found.stat.ephemeral_owner == client.session
    assert (found.stat.czxid, found.stat.mzxid) == (created, changed)


def test_a_transaction_has_an_answer_for_each_of_its_operations(
    client: TestClient, root: str
) -> None:
    """A multi that is done answers each of its operations, a set with the stat that it made."""
    client.perform(Create(f"{root}/epoch", b"0"))

    done = client.perform(
        Multi(
            (
                Check(f"{root}/epoch", 0),
                Set(f"{root}/epoch", b"1", version=0),
                Create(f"{root}/leader", b"me", ephemeral=True),
                Delete(f"{root}/leader"),
            )
        )
    )

    found = client.perform(Exists(f"{root}/epoch"))
    assert isinstance(found, Found)
    assert found.stat is not None
    assert (found.stat.version, found.stat.mzxid) == (1, client.last_zxid)
    assert done == Done((Checked(), Changed(found.stat), Created(f"{root}/leader"), Deleted()))


@pytest.mark.parametrize(
    ("operation", "refusal"),
    [
        (Create("/R/a"), Refusal(Why.NODE_EXISTS)),
        (Create("/R/none/a"), Refusal(Why.NO_NODE)),
        (Create("/R/eph/a"), Refusal(Why.NO_CHILDREN_FOR_EPHEMERALS)),
        (Create(""), Refusal(Why.BAD_ARGUMENTS)),
        (Create("R/relative"), Refusal(Why.BAD_ARGUMENTS)),
        (Create("/R//double"), Refusal(Why.BAD_ARGUMENTS)),
        (Create("/R/control\x01"), Refusal(Why.BAD_ARGUMENTS)),
        (Delete("/R/none"), Refusal(Why.NO_NODE)),
        (Delete("/R/a", version=7), Refusal(Why.BAD_VERSION)),
        (Delete("/R"), Refusal(Why.NOT_EMPTY)),
        (Delete("/"), Refusal(Why.BAD_ARGUMENTS)),
        (Set("/R/none", b""), Refusal(Why.NO_NODE)),
        (Set("/R/a", b"", version=7), Refusal(Why.BAD_VERSION)),
        (Get("/R/none", watch=True), Refusal(Why.NO_NODE)),
        (Children("/R/none"), Refusal(Why.NO_NODE)),
        (Multi((Create("/R/b"), Check("/R/a", 7))), Refusal(Why.BAD_VERSION, 1)),
        (Multi((Check("/R/none", 0), Create("/R/b"))), Refusal(Why.NO_NODE, 0)),
        (Multi((Create("/R/b"), Create("/R/b"))), Refusal(Why.NODE_EXISTS, 1)),
        (Multi((Create("/R/b"), Create("/R/b/"))), Refusal(Why.BAD_ARGUMENTS, 1)),
    ],
    ids=str,
)
def test_each_refusal_says_why(
    client: TestClient, root: str, operation: Operation, refusal: Refusal
) -> None:
    """A refused operation says why, a transaction also which of its operations; nothing is done."""
    client.perform(Create(f"{root}/a"))
    client.perform(Create(f"{root}/eph", ephemeral=True))

    assert client.perform(_below(root, operation)) == refusal

    assert client.perform(Children(root)) == Names(("a", "eph"))


def test_a_chroot_is_invisible(zookeeper: EmbeddedZooKeeper, client: TestClient, root: str) -> None:
    """A client whose hosts end with a chroot sees only what lies below, under short names."""
    with connected(zookeeper.hosts + root) as inside:
        assert inside.perform(Exists("/a", watch=True)) == Found(None)
        assert inside.perform(Create("/a")) == Created("/a")
        assert inside.perform(Children("/")) == Names(("a",))
        done = inside.perform(Multi((Create("/b"), Check("/a", 0))))
        assert done == Done((Created("/b"), Checked()))
        assert inside.diary.watches == [Watched("/a", NodeChange.CREATED)]
    assert client.perform(Children(root)) == Names(("a", "b"))


def test_a_watch_fires_once_and_before_what_it_warns_of(
    client: TestClient, zookeeper: EmbeddedZooKeeper, root: str
) -> None:
    """A watch fires once, however often it was set, and before an answer that shows the change."""
    client.ask(Get(root, watch=True), Exists(root, watch=True), Get(root, watch=True))
    with connected(zookeeper.hosts) as other:
        client.perform(Sync())
        other.perform(Set(root, b"1"))
        other.perform(Set(root, b"2"))

    client.ask(Get(root))

    eventually(lambda: len(client.diary.answers) == 4)
    watched, shown = client.diary.entries[-2:]
    assert watched == Watched(root, NodeChange.DATA)
    assert isinstance(shown, Data)
    assert shown.data == b"2"
    assert len(client.diary.watches) == 1


def test_a_node_watched_in_two_ways_is_deleted_once(client: TestClient, root: str) -> None:
    """The deletion of a node that is watched for data and for children is told once."""
    client.perform(Get(root, watch=True))
    client.perform(Children(root, watch=True))

    client.perform(Delete(root))

    client.perform(Sync())
    assert client.diary.watches == [Watched(root, NodeChange.DELETED)]


def test_watches_are_forgotten_with_their_connection(
    remote: TestClient, client: TestClient, proxy: FaultProxy, root: str
) -> None:
    """A lost connection is told as SUSPENDED, not as a watch; its watches never fire."""
    remote.perform(Get(root, watch=True))
    remote.perform(Children(root, watch=True))

    proxy.cut()
    eventually(lambda: len(remote.diary.links) == 3)
    client.perform(Set(root, b"1"))
    remote.perform(Sync())

    assert [link for link, _ in remote.diary.links] == [
        Link.CONNECTED,
        Link.SUSPENDED,
        Link.CONNECTED,
    ]
    assert remote.diary.watches == []


def test_a_read_on_a_new_connection_is_preceded_by_a_sync(
    remote: TestClient, proxy: FaultProxy, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first read on each connection, and no other, is sent right behind a sync."""
    with caplog.at_level(logging.DEBUG, "herdproof.zookeeper.kazoo"):
        remote.perform(Exists(root))
        remote.perform(Get(root))
        proxy.cut()
        eventually(lambda: len(remote.diary.links) == 3)
        remote.perform(Children(root))

    assert re.findall(r"Sending request.*: (\w+)\(path", "\n".join(caplog.messages)) == [
        "Sync",
        "Exists",
        "GetData",
        "Sync",
        "GetChildren",
    ]


def test_what_is_submitted_without_a_connection_is_never_sent(
    remote: TestClient, proxy: FaultProxy, root: str
) -> None:
    """An operation that is submitted while the link is down is refused, and not done later."""
    proxy.refuse()
    proxy.cut()
    remote.await_link(Link.SUSPENDED)

    remote.ask(Create(f"{root}/a"))

    eventually(lambda: remote.diary.answers == [LOST_CONNECTION])
    proxy.accept()
    remote.await_link(Link.CONNECTED)
    assert remote.perform(Exists(f"{root}/a")) == Found(None)
    assert remote.diary.answers == [LOST_CONNECTION]


def test_nothing_goes_out_on_a_connection_that_the_owner_was_not_told_of(
    proxy: FaultProxy, root: str
) -> None:
    """While the owner still reads of the old connection, nothing is sent on the new one."""
    busy, may_go_on = threading.Event(), threading.Event()
    answers: list[Answer] = []

    def on_link(link: Link, _session: int) -> None:
        if link is Link.SUSPENDED:
            busy.set()
            may_go_on.wait(20)

    slow = Client(proxy.hosts, session_timeout_s=10, on_link=on_link, on_watch=lambda _: None)
    with slow:
        before = proxy.bytes_to_client
        proxy.cut()
        assert busy.wait(20)
        eventually(lambda: proxy.bytes_to_client > before)  # the new connection was greeted

        slow.submit(Create(f"{root}/a"), answers.append)
        may_go_on.set()

        eventually(lambda: slow.link is Link.CONNECTED)
        assert slow.perform(Exists(f"{root}/a")) == Found(None)
        assert answers == [LOST_CONNECTION]


def test_what_was_done_but_not_heard_of_is_a_lost_connection(
    remote: TestClient, proxy: FaultProxy, root: str
) -> None:
    """The operation was done, the reply is lost: the answer is CONNECTION_LOSS, exactly once."""
    proxy.swallow_replies()
    remote.ask(Create(f"{root}/a"))
    proxy.wait_swallowed_reply()
    assert remote.diary.answers == []

    proxy.cut()

    eventually(lambda: len(remote.diary.links) == 3)
    found = remote.perform(Exists(f"{root}/a"))
    assert isinstance(found, Found)
    assert found.stat is not None
    assert remote.diary.answers == [LOST_CONNECTION]


def test_open_operations_are_answered_before_the_break_is_told(
    remote: TestClient, proxy: FaultProxy
) -> None:
    """When the connection breaks, its operations are answered, in order, then SUSPENDED comes."""
    proxy.freeze()
    remote.ask(Sync(), Create("/nowhere/a"), Sync())

    proxy.cut()
    proxy.thaw()

    eventually(lambda: len(remote.diary.links) == 3)
    assert remote.diary.entries == [
        (Link.CONNECTED, remote.session),
        *[LOST_CONNECTION] * 3,
        (Link.SUSPENDED, remote.session),
        (Link.CONNECTED, remote.session),
    ]


def test_what_is_refused_unsent_is_answered_in_its_turn(
    remote: TestClient, proxy: FaultProxy, root: str
) -> None:
    """A malformed path and another session are refused behind what was submitted earlier."""
    proxy.freeze()
    remote.ask(Get(root), Get("relative"), Multi((Check(root, 0), Create(""))))
    remote.submit(Sync(), remote.diary.write, session=remote.session + 1)
    remote.ask(Sync(), Get("/double//"))

    proxy.thaw()

    eventually(lambda: len(remote.diary.answers) == 6)
    assert isinstance(remote.diary.answers[0], Data)
    assert remote.diary.answers[1:] == [
        Refusal(Why.BAD_ARGUMENTS),
        Refusal(Why.BAD_ARGUMENTS, 1),
        LOST_CONNECTION,
        Synced(),
        Refusal(Why.BAD_ARGUMENTS),
    ]


def test_what_is_refused_unsent_is_answered_before_a_break_is_told(
    remote: TestClient, proxy: FaultProxy
) -> None:
    """When the connection breaks, a malformed path keeps its refusal and its turn."""
    proxy.freeze()
    remote.ask(Sync(), Get("relative"), Sync(), Get("relative"))

    proxy.cut()
    proxy.thaw()

    eventually(lambda: len(remote.diary.links) == 3)
    malformed = Refusal(Why.BAD_ARGUMENTS)
    assert remote.diary.answers == [LOST_CONNECTION, malformed, LOST_CONNECTION, malformed]
    assert remote.diary.entries[5] == (Link.SUSPENDED, remote.session)


def test_each_of_many_submitters_is_answered_in_order(client: TestClient) -> None:
    """Each thread's operations are answered in its order, malformed ones too; none is left out."""
    heard: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def hear(who: int, number: int, _answer: Answer) -> None:
        heard[who].append(number)

    def ask(who: int) -> None:
        for number in range(300):
            operation = Get("relative") if number % 3 == who else Sync()
            client.submit(operation, partial(hear, who, number))

    threads = [threading.Thread(target=ask, args=(who,)) for who in heard]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert client.perform(Sync()) == Synced()
    assert heard == {who: list(range(300)) for who in heard}


def test_a_session_can_expire_before_its_client_knows(
    remote: TestClient,
    client: TestClient,
    zookeeper: EmbeddedZooKeeper,
    proxy: FaultProxy,
    root: str,
) -> None:
    """The server ends a session and removes its nodes; its client, cut off, does not know."""
    remote.perform(Create(f"{root}/mine", ephemeral=True))
    old = remote.session
    proxy.freeze()

    expire_session(zookeeper.hosts, old, remote.password)

    assert client.perform(Exists(f"{root}/mine")) == Found(None)
    assert remote.link is Link.CONNECTED
    proxy.cut()
    proxy.thaw()
    eventually(lambda: len(remote.diary.links) == 4)
    assert remote.diary.links == [
        (Link.CONNECTED, old),
        (Link.SUSPENDED, old),
        (Link.LOST, old),
        (Link.CONNECTED, remote.session),
    ]
    assert remote.session != old
    assert remote.perform(Sync(), session=old) == LOST_CONNECTION
    assert remote.perform(Sync(), session=remote.session) == Synced()


def test_a_client_can_be_held_without_a_session(
    remote: TestClient, zookeeper: EmbeddedZooKeeper, proxy: FaultProxy
) -> None:
    """One connection tells a client that it is LOST; while no other is let in, it stays so."""
    session, password = remote.session, remote.password
    proxy.refuse()
    proxy.cut()
    expire_session(zookeeper.hosts, session, password)

    proxy.accept(1)

    remote.await_link(Link.LOST)
    proxy.wait_connections(proxy.connections + proxy.refused + 2)
    assert remote.diary.links[-1] == (Link.LOST, session)
    assert remote.perform(Sync()) == LOST_CONNECTION
    proxy.accept()
    remote.await_link(Link.CONNECTED)
    assert remote.session != session


def test_expiring_a_session_twice_does_no_harm(
    client: TestClient, zookeeper: EmbeddedZooKeeper
) -> None:
    """A session that is gone already is left in peace."""
    session, password = client.session, client.password
    expire_session(zookeeper.hosts, session, password)

    expire_session(zookeeper.hosts, session, password)

    client.ask(Sync())
    eventually(lambda: client.session not in {0, session})


def test_a_connection_that_swallows_requests_is_given_up(proxy: FaultProxy) -> None:
    """A client that keeps sending notices that nothing comes back (kazoo alone would not)."""
    with connected(proxy.hosts, session_timeout_s=1.0) as client:
        assert client.negotiated_timeout_s == 1.0
        proxy.freeze()

        def sends_on_until_told() -> bool:
            client.ask(Sync())
            return len(client.diary.links) > 1

        eventually(sends_on_until_told)
        assert client.diary.links[1][0] is Link.SUSPENDED
        proxy.thaw()


def test_a_burst_does_not_block_its_submitter(remote: TestClient, proxy: FaultProxy) -> None:
    """Thousands of operations can be submitted at once; they are answered in order."""
    proxy.freeze()
    remote.ask(*[Sync()] * 3000, Exists("/"))
    proxy.thaw()

    eventually(lambda: len(remote.diary.answers) == 3001)
    assert remote.diary.answers[:3000] == [Synced()] * 3000
    assert isinstance(remote.diary.answers[3000], Found)


def test_a_closed_client_leaves_nothing_behind(
    zookeeper: EmbeddedZooKeeper, client: TestClient, root: str
) -> None:
    """Closing ends the session at once; then every operation is refused, and nothing told."""
    with connected(zookeeper.hosts) as other:
        other.perform(Create(f"{root}/mine", ephemeral=True))
    told = list(other.diary.entries)

    assert client.perform(Exists(f"{root}/mine")) == Found(None)
    assert other.perform(Sync()) == LOST_CONNECTION
    assert other.diary.entries == told
    assert other.link is Link.LOST


def test_an_abandoned_session_lives_on_until_the_server_ends_it(
    zookeeper: EmbeddedZooKeeper, client: TestClient, root: str
) -> None:
    """A client that vanishes leaves its ephemeral node, until its session expires."""
    other = TestClient(zookeeper.hosts, session_timeout_s=4.0)
    other.start()
    other.perform(Create(f"{root}/mine", ephemeral=True))

    other.abandon()

    found = client.perform(Exists(f"{root}/mine"))
    assert isinstance(found, Found)
    assert found.stat is not None
    eventually(lambda: client.perform(Exists(f"{root}/mine")) == Found(None))


def test_what_is_open_when_a_client_is_abandoned_is_answered(
    remote: TestClient, proxy: FaultProxy
) -> None:
    """Every operation has its answer by the time that `abandon` returns."""
    proxy.freeze()
    remote.ask(Sync(), Sync())

    remote.abandon()

    assert remote.diary.answers == [LOST_CONNECTION] * 2


def test_a_callback_that_fails_or_waits_for_itself_stops_nobody(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A callback that raises is logged, and the next one comes; so is waiting in a callback."""

    def waits_for_itself(_answer: Answer) -> None:
        client.perform(Sync())

    client.submit(Sync(), waits_for_itself)

    assert client.perform(Sync()) == Synced()
    assert [r.exc_info[0] for r in caplog.records if r.exc_info] == [WouldDeadlock]


def test_a_handshake_without_answer_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says nothing is asked anew while the session lasts: kazoo would wait."""
    monkeypatch.setattr("herdproof.zookeeper.client._HANDSHAKE", 0.0)
    monkeypatch.setattr("herdproof.zookeeper.client._HANDSHAKE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(1.0)
        client = TestClient(f"127.0.0.1:{silent.getsockname()[1]}", session_timeout_s=40.0)

        with pytest.raises(ZooKeeperUnreachable):
            client.start(timeout_s=2.0)

        made = 0
        while made < 2:  # or there is none any more, and this fails; others only look who listens
            line, _ = silent.accept()
            with line:
                made += struct.pack(">i", 40_000) in line.recv(100)


def test_an_unreachable_server_is_named(zookeeper: EmbeddedZooKeeper, proxy: FaultProxy) -> None:
    """A client that finds nobody says where it looked, and what to do."""
    proxy.refuse()
    client = TestClient(proxy.hosts)

    with pytest.raises(ZooKeeperUnreachable, match=rf"{proxy.hosts} .* check the address"):
        client.start(timeout_s=0.2)

    with pytest.raises(ZooKeeperUnreachable, match="host:port"):
        TestClient("127.0.0.1:port")


def test_who_waits_for_a_server_is_released_by_a_close(proxy: FaultProxy) -> None:
    """A service that is told to end while nobody answers does not stay for its time-out."""
    proxy.refuse()
    before = threading.enumerate()
    client = TestClient(proxy.hosts)
    raised: list[ZooKeeperUnreachable] = []

    def wait() -> None:
        try:
            client.start(timeout_s=600.0)
        except ZooKeeperUnreachable as unreachable:
            raised.append(unreachable)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    client.close()

    waiting.join(60.0)
    assert not [thread for thread in threading.enumerate() if thread not in before]
    assert [f"No ZooKeeper of {proxy.hosts} had answered at the end."] == [*map(str, raised)]


def _below(root: str, operation: Operation) -> Operation:
    """The same operation with `/R` standing for a test's own node."""
    if isinstance(operation, Multi):
        parts = operation.operations
        return Multi(tuple(replace(part, path=part.path.replace("/R", root)) for part in parts))
    return replace(operation, path=operation.path.replace("/R", root))
