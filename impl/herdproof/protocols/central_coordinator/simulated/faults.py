"""Faults of the simulated world: how each kind strikes, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from herdproof.protocols.central_coordinator.simulated.random_runs import Fault, Kind, draw_member
from herdproof.simulator.session import HOST

if TYPE_CHECKING:
    from herdproof.protocols.central_coordinator.simulated.broker import SimulatedBroker
    from herdproof.protocols.central_coordinator.simulated.consumer import SimulatedConsumer
    from herdproof.protocols.central_coordinator.simulated.world import Run

TOPICS_ADDED = ("later", "lost", "over", "payments")
"""Topics that appear while a run goes on: some wildcards match some of them."""

MOST_PARTITIONS = 8


def strike(run: Run, fault: Fault) -> None:
    """Let a fault happen now, and its end later; what cannot happen now does nothing."""
    STRIKES[fault.kind](run, fault)


def broker_of(run: Run, fault: Fault) -> SimulatedBroker:
    """The broker that the fault is about."""
    return run.brokers[fault.broker - 1]


def consumer_of(run: Run, fault: Fault) -> SimulatedConsumer:
    """The consumer that the fault is about."""
    return run.consumers[fault.consumer - 1]


def kill_broker(run: Run, fault: Fault) -> None:
    """A broker's process is no more; another one starts later."""
    broker = broker_of(run, fault)
    if broker.alive:
        broker.kill()
        run.timeline.after(fault.for_ms, run.start_broker, fault.broker)


def crash_host(run: Run, fault: Fault) -> None:
    """A broker's host fails: no kernel is left to say that its connections are over."""
    broker = broker_of(run, fault)
    if broker.alive:
        broker.crash()
        run.timeline.after(fault.for_ms, run.start_broker, fault.broker)


def pause_broker(run: Run, fault: Fault) -> None:
    """A broker's process stands still."""
    broker = broker_of(run, fault)
    if broker.alive and not broker.paused:
        broker.pause()
        run.timeline.after(fault.for_ms, broker.resume)


def part_zookeeper(run: Run, fault: Fault) -> None:
    """Nothing gets through between a broker and ZooKeeper."""
    broker = broker_of(run, fault)
    until = run.timeline.now + fault.for_ms
    run.network.part(broker.name, HOST, until)
    broker.client.parted(until)


def cut_zookeeper(run: Run, fault: Fault) -> None:
    """A broker's connection to ZooKeeper breaks."""
    broker_of(run, fault).client.cut()


def expire(run: Run, fault: Fault) -> None:
    """The service ends a broker's session."""
    run.service.expire(broker_of(run, fault).client, told=run.fate.random() < 0.5)


def lose_reply(run: Run, fault: Fault) -> None:
    """The next write of a broker is done, and its reply lost."""
    broker_of(run, fault).client.swallows = True


def lag(run: Run, fault: Fault) -> None:
    """The server that a broker is connected to applies nothing for a while."""
    client = broker_of(run, fault).client
    session = client.session
    if session and run.service.zookeeper.alive(session):
        run.service.zookeeper.fall_behind(session)
        run.timeline.after(fault.for_ms, catch_up, run, session)


def catch_up(run: Run, session: int) -> None:
    """That server applies what it missed."""
    run.service.zookeeper.catch_up(session)
    run.service.send_events()


def slow_zookeeper(run: Run, fault: Fault) -> None:
    """Every operation takes longer."""
    run.service.slow_down(run.timeline.now + fault.for_ms, by_ms=run.fate.choice((100, 1_500)))


def kill_consumer(run: Run, fault: Fault) -> None:
    """A consumer's process is no more; another one with its id starts later."""
    consumer = consumer_of(run, fault)
    if consumer.alive:
        consumer.kill()
        run.timeline.after(fault.for_ms, come_back, run, consumer)


def come_back(run: Run, consumer: SimulatedConsumer) -> None:
    """Another process takes the place of a consumer's, unless one has already."""
    if run.consumers[consumer.number - 1] is consumer:
        consumer.kill()
        run.start_consumer(consumer.number, consumer.member)


def pause_consumer(run: Run, fault: Fault) -> None:
    """A consumer's process stands still."""
    consumer = consumer_of(run, fault)
    if consumer.alive and not consumer.paused:
        consumer.pause()
        run.timeline.after(fault.for_ms, consumer.resume)


def cut(run: Run, fault: Fault) -> None:
    """A consumer's connections break; one side may learn of it much later."""
    for connection, _ in list(consumer_of(run, fault).ends.values()):
        sides = [10.0 * run.fate.random(), 10.0 * run.fate.random()]
        if run.fate.random() < 0.6:
            sides[run.fate.randrange(2)] += fault.for_ms
        connection.cut(*sides)


def part(run: Run, fault: Fault) -> None:
    """Nothing gets through between a consumer and a broker."""
    names = consumer_of(run, fault).name, broker_of(run, fault).name
    run.network.part(*names, run.timeline.now + fault.for_ms)


def drift(run: Run, fault: Fault) -> None:
    """Two clocks drift otherwise."""
    bound = run.config.drift
    for process in (broker_of(run, fault), consumer_of(run, fault)):
        process.clock.drift(run.fate.uniform(1 - bound, 1 + bound))


def add_topic(run: Run, _fault: Fault) -> None:
    """A topic appears."""
    topic = run.fate.choice(TOPICS_ADDED)
    run.kafka.create_topic(topic, run.fate.randint(1, 3))


def add_partitions(run: Run, _fault: Fault) -> None:
    """A topic gets more partitions."""
    topic = run.fate.choice(list(run.kafka.topics))
    if run.kafka.topics[topic] < MOST_PARTITIONS:
        run.kafka.add_partitions(topic, run.fate.randint(1, 2))


def join(run: Run, fault: Fault) -> None:
    """One more consumer joins another one's group, at most twice a run."""
    number = len(run.consumers) + 1
    if number <= run.config.consumers + 2:
        like = consumer_of(run, fault).member
        run.start_consumer(number, draw_member(run.fate, number, like))


def leave(run: Run, fault: Fault) -> None:
    """A consumer is closed by its user, who opens it again later."""
    consumer = consumer_of(run, fault)
    if not consumer.alive or consumer.leaving:
        return

    consumer.leave()
    run.timeline.after(fault.for_ms, come_back, run, consumer)


STRIKES: dict[Kind, Callable[[Run, Fault], None]] = {
    Kind.KILL_BROKER: kill_broker,
    Kind.CRASH_HOST: crash_host,
    Kind.PAUSE_BROKER: pause_broker,
    Kind.PART_ZOOKEEPER: part_zookeeper,
    Kind.CUT_ZOOKEEPER: cut_zookeeper,
    Kind.EXPIRE: expire,
    Kind.LOSE_REPLY: lose_reply,
    Kind.LAG: lag,
    Kind.SLOW_ZOOKEEPER: slow_zookeeper,
    Kind.KILL_CONSUMER: kill_consumer,
    Kind.PAUSE_CONSUMER: pause_consumer,
    Kind.CUT: cut,
    Kind.PART: part,
    Kind.DRIFT: drift,
    Kind.ADD_TOPIC: add_topic,
    Kind.ADD_PARTITIONS: add_partitions,
    Kind.JOIN: join,
    Kind.LEAVE: leave,
}
