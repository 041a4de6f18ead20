"""
Real brokers on a real ZooKeeper, with real faults, do what the election's spec allows.

Every edge of the smallest graph; random plans with three brokers; three mistakes of the core, each
caught by the story that the checker told of it. What one server cannot show is driven on an
ensemble with a lagging follower. `properties/test_election_link.py` does the same, and more of it,
on the simulated ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

import pytest

from herdproof.link.election import Differs
from herdproof.link.real import RealLockstep, read_lists
from herdproof.link.real_cover import Graph, RealCoverage, cover
from herdproof.link.real_lagging import LaggingElection, ensemble
from herdproof.link.real_mutants import REAL_MUTANTS, real_mutant
from herdproof.link.real_world import NEEDS_A_TIMEOUT, RealElection
from herdproof.zookeeper.client import expire_session
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Delete, Set
from herdspec.check.run import Step
from herdspec.protocols.election import Broker
from herdspec.protocols.election_flaws import AT_ONCE, FLAWS

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


def must_cover(found: RealCoverage, edges: int, covered: int, report: Report) -> None:
    """Nothing differs, nothing is missed; the counts are pinned on purpose."""
    assert not found.differing, next(iter(found.differing.values()))
    left = sum(found.not_driven.values())
    assert (found.edges, found.covered, found.missed) == (edges, covered, 0)
    assert found.covered + found.elsewhere + left == found.edges
    report(f"election, {found.line}")


def cover_alone(zookeeper: EmbeddedZooKeeper, size: int, faults: int) -> RealCoverage:
    """What one server can show of the graph of this size."""
    with RealElection(zookeeper, size) as world:
        return cover(world, Graph(size, faults))


def cover_lagging(size: int, faults: int) -> RealCoverage:
    """What only an ensemble with a lagging follower can show of it."""
    with ensemble() as servers, LaggingElection(servers, size) as world:
        graph = Graph(size, faults, LaggingElection.why_not)
        return cover(world, graph, but=Graph(size, faults).reachable())


def test_every_edge_at_one_broker_and_one_fault_is_the_real_brokers(
    zookeeper: EmbeddedZooKeeper, report: Report
) -> None:
    """Every step of one broker with one fault leads the real broker where the spec says."""
    found = cover_alone(zookeeper, 1, 1)

    must_cover(found, 302, 263, report)
    assert found.not_driven == {
        "needs a server that lags": 22,
        NEEDS_A_TIMEOUT: 2,
        "come only after such": 15,
    }


def test_a_lagging_follower_shows_what_one_server_cannot(report: Report) -> None:
    """With a follower that lags, the real broker goes where the spec says, but for its writes."""
    found = cover_lagging(1, 1)

    must_cover(found, 302, 31, report)
    assert found.not_driven == {
        "writes through a server that lags": 4,
        NEEDS_A_TIMEOUT: 2,
        "come only after such": 2,
    }


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("size", "faults", "edges", "covered"), [(1, 2, 2_122, 1_635), (2, 1, 6_310, 5_498)]
)
def test_every_edge_of_the_next_sizes_is_the_real_brokers(
    zookeeper: EmbeddedZooKeeper, report: Report, size: int, faults: int, edges: int, covered: int
) -> None:
    """Every step with one more fault, or one more broker, leads where the spec says."""
    must_cover(cover_alone(zookeeper, size, faults), edges, covered, report)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_brokers_and_a_lagging_follower_go_where_the_spec_says(report: Report) -> None:
    """One broker reads of the past while another goes on, and both go where the spec says."""
    must_cover(cover_lagging(2, 1), 6_310, 683, report)


def test_plans_are_paths_that_take_every_edge_that_can_be_driven() -> None:
    """Each plan begins at the initial state and goes on where it is; together they take all."""
    graph, taken = Graph(2, 1), set[int]()

    for plan in graph.plans():
        at = 0
        for e in plan:
            assert graph.source[e] == at
            assert graph.actions[graph.instance[e]].name not in {"fall_behind", "catch_up"}
            at = graph.target[e]
        taken |= {graph.classes[e] for e in plan}

    assert taken == graph.reachable()
    assert len(taken) + sum(graph.not_driven().values()) == len(set(graph.classes))


# ── Three brokers, random faults ────────────────────────────────────────────────────────────


def test_random_plans_of_three_real_brokers_stay_in_step(
    three_brokers: RealElection, report: Report
) -> None:
    """With three brokers and random faults, the spec and the real brokers stay in step."""
    seeds, steps = range(6), 40
    lockstep = RealLockstep(three_brokers)
    began = perf_counter()

    for seed in seeds:
        lockstep.begin()
        lockstep.wander(seed, steps)

    rate = len(seeds) * steps / (perf_counter() - began)
    report(f"election, real ZooKeeper: {len(seeds)} random plans of {steps}, {rate:.0f} steps/s")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_random_plans_of_three_real_brokers_stay_in_step(three_brokers: RealElection) -> None:
    """The same, for longer."""
    lockstep = RealLockstep(three_brokers)

    for seed in range(1_000, 1_100):
        lockstep.begin()
        lockstep.wander(seed, 100)


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

    assert found.runs_without_faults
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


def leads(lockstep: RealLockstep) -> None:
    """Let the first broker be elected."""
    for action in (
        "stand", "serve_look", "handle_look", "serve_read", "handle_read", "serve_create",
        "handle_create",
    ):  # fmt: skip
        lockstep.step(action, [Broker(0)])


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
    lockstep = RealLockstep(two_brokers)
    leads(lockstep)
    meddle(two_brokers)
    lockstep.patience_s = 0.1  # from here on it stays elsewhere

    with pytest.raises(Differs) as story:
        lockstep.step("pause", [Broker(1)])

    told = str(story.value).partition("There the implementation is elsewhere:")[2]
    assert all(f"{field}: " in told for field in fields), told


def test_a_step_that_the_real_broker_cannot_take_is_told_as_a_story(
    two_brokers: RealElection,
) -> None:
    """Where the spec goes on and the implementation cannot, the story says why."""
    lockstep = RealLockstep(two_brokers)
    action = lockstep.machine.spec.action("serve_look")

    with pytest.raises(Differs, match="The implementation cannot: broker1 has none under way"):
        lockstep.take(Step(action, (Broker(0),), lockstep.state))


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
