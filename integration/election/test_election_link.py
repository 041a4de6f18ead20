"""
Real brokers on a real ZooKeeper, with real faults, do what the election's spec allows.

Every edge of the smallest graph; random plans with three brokers; three mistakes of the core, each
caught by the story that the checker told of it. What one server cannot show is driven on an
ensemble with a lagging follower. `properties/protocols/election/test_election_link.py` does the
same, and more of it, on the simulated ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from herdproof.conformance.graphs.edges import ABSENT, BEHIND, REFUSED, TOURS, Coverage, cover
from herdproof.conformance.holding.held import Differs, Held
from herdproof.conformance.walks.walk import walk
from herdproof.protocols.election.held.real import real_electors
from herdproof.protocols.election.real.world import NEEDS_A_TIMEOUT, RealElection, read_lists
from herdproof.zookeeper.client import expire_session
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Delete, Set
from herdspec.protocols.election.flaws import AT_ONCE, FLAWS
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.spec import Broker
from integration.election.real_lagging import LaggingElection, ensemble
from integration.election.real_mutants import REAL_MUTANTS, real_mutant

Report = Callable[[str], None]

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def two_brokers(zookeeper: EmbeddedZooKeeper) -> Iterator[RealElection]:
    """Two brokers; each test begins anew with them."""
    with RealElection(zookeeper, 2) as world:
        yield world


@pytest.fixture(scope="module")
def three_brokers(zookeeper: EmbeddedZooKeeper) -> Iterator[RealElection]:
    """Three brokers; each test begins anew with them."""
    with RealElection(zookeeper, 3) as world:
        yield world


# ── Every edge ──────────────────────────────────────────────────────────────────────────────


def must_cover(
    found: Coverage, edges: int, covered: int, missed: dict[str, int], report: Report
) -> None:
    """Nothing differs; the counts, and why edges are not taken, are pinned on purpose."""
    assert found.mismatch is None, found.mismatch.story
    assert (found.edges, found.covered) == (edges, covered)
    left: dict[str, int] = {}
    for some in found.missed:
        left[some.reason] = left.get(some.reason, 0) + some.edges
    assert left == missed
    report(f"election, real ZooKeeper, {found.line}")


def cover_on(world: RealElection, faults: int) -> Coverage:
    """What this world can show of the graph at its size."""
    return cover(ELECTION, real_electors(world), by=TOURS, faults=faults, Broker=world.size)


def cover_alone(zookeeper: EmbeddedZooKeeper, size: int, faults: int) -> Coverage:
    """What one server can show of it."""
    with RealElection(zookeeper, size) as world:
        return cover_on(world, faults)


def cover_lagging(size: int, faults: int) -> Coverage:
    """What an ensemble with a lagging follower can show of it."""
    with ensemble() as servers, LaggingElection(servers, size) as world:
        return cover_on(world, faults)


LAGS, TIMEOUT = f"{ABSENT}needs a server that lags", f"{ABSENT}{NEEDS_A_TIMEOUT}"


def test_every_edge_at_one_broker_and_one_fault_is_the_real_brokers(
    zookeeper: EmbeddedZooKeeper, report: Report
) -> None:
    """Every step of one broker with one fault leads the real broker where the spec says."""
    found = cover_alone(zookeeper, 1, 1)

    must_cover(found, 302, 263, {LAGS: 22, TIMEOUT: 2, BEHIND: 15}, report)
    assert found.is_whole


def test_a_lagging_follower_shows_what_one_server_cannot(report: Report) -> None:
    """With a follower that lags, the real broker goes where the spec says, but for its writes."""
    must_cover(cover_lagging(1, 1), 302, 294, {REFUSED: 4, TIMEOUT: 2, BEHIND: 2}, report)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("size", "faults", "edges", "covered", "missed"),
    [
        (1, 2, 2_122, 1_635, {LAGS: 219, TIMEOUT: 24, BEHIND: 244}),
        (2, 1, 12_620, 10_996, {LAGS: 644, TIMEOUT: 44, BEHIND: 936}),
    ],
)
def test_every_edge_of_the_next_sizes_is_the_real_brokers(
    zookeeper: EmbeddedZooKeeper, report: Report, size: int, faults: int, edges: int,
    covered: int, missed: dict[str, int],
) -> None:  # fmt: skip
    """Every step with one more fault, or one more broker, leads where the spec says."""
    must_cover(cover_alone(zookeeper, size, faults), edges, covered, missed, report)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_brokers_and_a_lagging_follower_go_where_the_spec_says(report: Report) -> None:
    """One broker reads of the past while another goes on, and both go where the spec says."""
    must_cover(cover_lagging(2, 1), 12_620, 12_362, {REFUSED: 88, TIMEOUT: 44, BEHIND: 126}, report)


# ── Three brokers, random faults ────────────────────────────────────────────────────────────


def test_random_plans_of_three_real_brokers_stay_in_step(
    three_brokers: RealElection, report: Report
) -> None:
    """With three brokers and random faults, the spec and the real brokers stay in step."""
    found = walk(ELECTION, real_electors(three_brokers), {"Broker": 3}, runs=10, steps=60)

    assert found.difference is None, str(found.difference)
    assert found.runs == 10
    assert found.steps >= 240
    rate = found.steps / found.seconds
    report(f"election, real ZooKeeper: {found.steps} random steps in 10 runs, {rate:.0f} steps/s")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_random_plans_of_three_real_brokers_stay_in_step(three_brokers: RealElection) -> None:
    """The same, for longer."""
    found = walk(ELECTION, real_electors(three_brokers), {"Broker": 3}, runs=150, steps=150)

    assert found.difference is None, str(found.difference)
    assert found.steps > 8_000


# ── It can fail ─────────────────────────────────────────────────────────────────────────────


CAUGHT = {
    "unfenced_write": (16, "write(broker1)"),
    "mine_by_data": (9, "serve_look(broker1)"),
    "believes_lost_reply": (14, "handle_suspended(broker2)"),
}
"""After how many steps each of these mutants is caught, and the last of them."""


@pytest.mark.parametrize("flaw", REAL_MUTANTS)
def test_a_mistake_of_the_core_is_caught_on_the_real_zookeeper(
    two_brokers: RealElection, report: Report, flaw: str
) -> None:
    """A real broker with this mistake breaks the promise as the checker told, and is caught."""
    found = real_mutant(two_brokers, flaw, REAL_MUTANTS[flaw])

    assert (found.steps, found.action) == CAUGHT[flaw], found.difference
    report(
        f"election, real ZooKeeper: {flaw} breaks {found.promise} in {found.story} steps, "
        f"caught after {found.steps}, {found.action}"
    )


@pytest.mark.long
@pytest.mark.parametrize("flaw", sorted(set(FLAWS) - {"no_sync"}))
def test_every_story_of_a_flaw_is_told_by_real_brokers(
    two_brokers: RealElection, flaw: str
) -> None:
    """Real brokers with a mistake do what the checker told of the spec that has it."""
    for promise in sorted(set(FLAWS[flaw].failures) - set(AT_ONCE)):
        real_mutant(two_brokers, flaw, promise)


def leads(held: Held) -> None:
    """Let the first broker be elected."""
    for action in (
        "stand", "serve_look", "handle_look", "serve_read", "handle_read", "serve_create",
        "handle_create",
    ):  # fmt: skip
        held.offer(action, Broker(0))


def cut_its_connection(world: RealElection) -> None:
    """Break the first broker's connection, without telling the spec."""
    world.cut(0)


def end_its_session(world: RealElection) -> None:
    """End the first broker's session at the server, without telling the spec."""
    broker = world.brokers[0]
    password = broker.passwords[broker.session]
    expire_session(world.zookeeper.hosts, broker.session, password)


def delete_the_node(world: RealElection) -> None:
    """Delete the leader's node, without telling the spec."""
    world.outsider.client.perform(Delete(world.paths.leader))


def count_the_epoch_up(world: RealElection) -> None:
    """Set the epoch node in the second broker's name, without telling the spec."""
    world.outsider.client.perform(Set(world.paths.epoch, b"broker2"))


@pytest.mark.parametrize(
    ("meddle", "fields"),
    [
        (cut_its_connection, ["connected[broker1]"]),
        (end_its_session, ["holder", "alive[broker1]", "connected[broker1]"]),
        (delete_the_node, ["holder"]),
        (count_the_epoch_up, ["epoch", "elected"]),
    ],
)
def test_a_world_that_is_elsewhere_is_noticed(
    two_brokers: RealElection, meddle: Callable[[RealElection], None], fields: list[str]
) -> None:
    """Whatever happens to ZooKeeper that the spec does not know of shows at the next step."""
    patient = real_electors(two_brokers)
    impatient = type("Impatient", (patient,), {"patience": 0.1})  # it stays elsewhere
    with Held(ELECTION, impatient, Broker=2) as held:
        leads(held)
        meddle(two_brokers)

        with pytest.raises(Differs) as story:
            held.offer("pause", Broker(1))

    told = str(story.value).partition("There the code is elsewhere:")[2]
    assert all(f"{field}: " in told for field in fields), told


def test_a_step_that_the_real_broker_cannot_take_is_told_as_a_story(
    two_brokers: RealElection,
) -> None:
    """Where the spec goes on and the implementation cannot, the story says why."""
    with Held(ELECTION, real_electors(two_brokers), Broker=2) as held:
        held.offer("stand", Broker(0))
        two_brokers.brokers[0].shell.outbox.clear()

        with pytest.raises(Differs, match="The code refused it: broker1 has no call to release"):
            held.offer("serve_look", Broker(0))


def test_the_servers_lists_are_read() -> None:
    """Sessions, connections and watches are found in the server's answers, and nothing else."""
    dump = (
        "SessionTracker dump:\nSession Sets (2)/(1):\n0 expire at 1:\n1 expire at 2:\n\t0x1a\n"
        "ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x2b:\n\t/x\n"
        "Connections dump:\nConnections Sets (1)/(1):\n1 expire at 3:\n"
        "\tip: /127.0.0.1:2 sessionId: 0x4d\n"
    )
    cons = " /127.0.0.1:1[0](queued=0,recved=1)\n /127.0.0.1:3[1](sent=2,sid=0x3c,lop=GETD)\n\n"

    lists = read_lists(dump, cons, "0x1a\n\t/a\n\t/b\n0x3c\n\t/c\n\n")

    assert lists.sessions == frozenset({0x1A})
    assert lists.connected == frozenset({0x3C})
    assert lists.watches == {0x1A: {"/a", "/b"}, 0x3C: {"/c"}}
