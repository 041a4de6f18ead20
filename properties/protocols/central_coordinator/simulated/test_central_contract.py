"""The simulator's monitors of the contract: each tells the broken promise, and lets others pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset
from herdproof.protocols.central_coordinator.simulated.contract import Broken, Contract
from herdproof.protocols.sentences import Sentence
from herdproof.simulator.clock import Timeline
from herdproof.zookeeper.operations import Check, Create, Delete, Multi, Set

EPOCH = "/herdproof/election/epoch"
ORDERS = NamedPartition("orders", "0")


@dataclass(eq=False)
class Consumer:
    """A consumer's process, as far as the contract sees it."""

    name: str
    group: str = "g"
    consumer_id: str = ""
    delivers: bool = True

    def may_deliver(self) -> bool:
        """Whether it could deliver now."""
        return self.delivers


@dataclass(eq=False)
class Broker:
    """A broker's process, as far as the contract sees it."""

    name: str
    broker: str


def at(offset: int) -> tuple[Offset, ...]:
    """An offset of the one partition."""
    return (Offset("orders", "0", offset),)


def owner(consumer: str, generation: int) -> Create:
    """An owner node is written."""
    data = {"consumer": consumer, "member": "m", "generation": generation}
    return Create("/consumers/g/owners/orders/0", json.dumps(data).encode())


def group(epoch: int, generation: int) -> Set:
    """A group's node is written."""
    data = {"epoch": epoch, "generation": generation, "owners_parts": 1}
    return Set("/herdproof/groups/g", json.dumps(data).encode())


def stores(offset: int) -> Set:
    """An offset is written."""
    return Set("/consumers/g/offsets/orders/0", b"%d" % offset)


class Scene:
    """Broker 1 coordinates in epoch 1; c1 owns the partition in generation 1, from offset 5 on."""

    def __init__(self) -> None:
        self.contract = Contract(Timeline(), EPOCH)
        self.one, self.two = Broker("broker1", "1"), Broker("broker2", "2")
        self.c1, self.c2 = Consumer("c1"), Consumer("c2")
        self.contract.wrote(self.one, Set(EPOCH, b"1"), coordinates=False)
        self.contract.elected(self.one, 1)
        self.write(owner("c1", 1), group(1, 1))
        self.contract.commands_start(self.one, "g", "c1", 1, at(NO_OFFSET))
        self.contract.starts(self.c1, at(NO_OFFSET))
        self.tells("c1", 1, 5)
        self.write(stores(5))
        self.contract.confirms(self.one, "g", "c1", 1, at(5))

    def write(self, *parts: Create | Set | Delete | Check) -> None:
        """The coordinator's write is accepted."""
        self.contract.wrote(self.one, Multi((Check(EPOCH, 1), *parts)), coordinates=True)

    def tells(self, consumer: str, generation: int, offset: int) -> None:
        """A consumer tells the coordinator an offset."""
        self.contract.hears(self.one, "g", consumer, generation, at(offset))

    def processes(self, *offsets: int) -> None:
        """c1's application takes records and finishes with them."""
        for offset in offsets:
            self.contract.delivers(self.c1, ORDERS, offset)
            self.contract.finishes(self.c1, ORDERS, offset)

    def hands_over(self) -> None:
        """What c1 has processed is stored, and c2 owns the partition in generation 2."""
        self.processes(5, 6)
        self.contract.stops(self.c1)
        self.tells("c1", 1, 7)
        self.write(stores(7))
        self.write(owner("c2", 2), group(1, 2))
        self.contract.commands_start(self.one, "g", "c2", 2, at(7))
        self.contract.starts(self.c2, at(7))


def test_a_run_that_keeps_every_promise_breaks_none() -> None:
    """Handing over, with a pause, a repeated commit and a new coordinator, breaks no promise."""
    scene = Scene()
    contract = scene.contract

    scene.hands_over()
    scene.tells("c2", 2, 7)
    scene.write(stores(7))
    contract.sees(scene.c2, 1)
    contract.obeys(scene.c2, 1)
    contract.wrote(scene.two, Set(EPOCH, b"2"), coordinates=False)
    contract.deposed(scene.one, [])
    contract.elected(scene.two, 2)
    contract.elected(scene.two, 2)
    contract.commands_start(scene.one, "g", "c1", 1, at(5))  # of the past: c1's fence refuses it
    contract.wrote(scene.two, Multi((Check(EPOCH, 2), group(2, 3))), coordinates=True)

    assert contract.counts["generations"] == 3
    assert contract.stored == {("g", ORDERS): 7}


Breach: TypeAlias = Callable[[Scene], None]

BREACHES: dict[Breach, Sentence] = {}


def breaks(sentence: Sentence) -> Callable[[Breach], Breach]:
    """What follows breaks this promise."""

    def decorate(breach: Breach) -> Breach:
        BREACHES[breach] = sentence
        return breach

    return decorate


@breaks(Sentence.EXCLUSIVE)
def two_consume(scene: Scene) -> None:
    """The other one starts before the first has stopped."""
    scene.contract.starts(scene.c2, at(5))


@breaks(Sentence.EXCLUSIVE)
def two_consume_after_a_pause(scene: Scene) -> None:
    """The first was paused when the other started, and goes on."""
    scene.c1.delivers = False
    scene.contract.starts(scene.c2, at(5))
    scene.c1.delivers = True
    scene.contract.awake(scene.c1)


@breaks(Sentence.EXCLUSIVE)
def another_one_delivers(scene: Scene) -> None:
    """Both have come to deliver, and one does."""
    scene.c1.delivers = False
    scene.contract.starts(scene.c2, at(5))
    scene.c1.delivers = True
    scene.contract.delivers(scene.c2, ORDERS, 5)


@breaks(Sentence.FENCED_COMMIT)
def an_offset_of_who_does_not_own(scene: Scene) -> None:
    """What another member told is stored."""
    scene.processes(5)
    scene.tells("c2", 1, 6)
    scene.write(stores(6))


@breaks(Sentence.FENCED_COMMIT)
def an_offset_of_a_past_generation(scene: Scene) -> None:
    """The owner is the same, but spoke in the generation before."""
    scene.processes(5)
    scene.write(owner("c1", 2), group(1, 2))
    scene.tells("c1", 1, 6)
    scene.write(stores(6))


@breaks(Sentence.FENCED_COMMIT)
def an_offset_that_nobody_told(scene: Scene) -> None:
    """What is stored was made up."""
    scene.processes(5)
    scene.write(stores(6))


@breaks(Sentence.FENCED_COMMIT)
def an_offset_stored_after_the_handover(scene: Scene) -> None:
    """The owner told it in time, but it is stored when the partition is another one's."""
    scene.processes(5)
    scene.tells("c1", 1, 6)
    scene.write(owner("c2", 2), group(1, 2))
    scene.write(stores(6))


@breaks(Sentence.FENCED_COMMIT)
def accepted_and_not_stored(scene: Scene) -> None:
    """A commit is answered before it is stored."""
    scene.processes(5)
    scene.tells("c1", 1, 6)
    scene.contract.confirms(scene.one, "g", "c1", 1, at(6))


@breaks(Sentence.FENCED_COMMIT)
def accepted_from_who_does_not_own(scene: Scene) -> None:
    """A commit that changes nothing is accepted from another member."""
    scene.contract.told.clear()
    scene.tells("c2", 1, 5)
    scene.contract.confirms(scene.one, "g", "c2", 1, at(5))


@breaks(Sentence.FENCED_WRITE)
def a_write_of_a_past_coordinator(scene: Scene) -> None:
    """ZooKeeper accepts a write of a broker after another one's election."""
    scene.contract.wrote(scene.two, Set(EPOCH, b"2"), coordinates=False)
    scene.write(group(1, 2))


@breaks(Sentence.WRITTEN_FIRST)
def a_start_before_its_owners_are_written(scene: Scene) -> None:
    """A Start of a generation that ZooKeeper does not know."""
    scene.contract.commands_start(scene.one, "g", "c1", 2, at(5))


@breaks(Sentence.WRITTEN_FIRST)
def a_start_before_the_last_part_is_written(scene: Scene) -> None:
    """The owners stand, but not the group's node, which makes them valid."""
    scene.write(owner("c1", 2))
    scene.contract.commands_start(scene.one, "g", "c1", 2, at(5))


@breaks(Sentence.WRITTEN_FIRST)
def a_start_of_what_another_one_owns(scene: Scene) -> None:
    """A Start of a partition whose owner node names another member."""
    scene.contract.commands_start(scene.one, "g", "c2", 1, at(5))


@breaks(Sentence.FENCED_COMMAND)
def a_past_epoch_is_obeyed(scene: Scene) -> None:
    """A consumer that has seen a later epoch obeys an earlier one's coordinator."""
    scene.contract.sees(scene.c1, 2)
    scene.contract.obeys(scene.c1, 1)


@breaks(Sentence.COMMANDS_NOBODY)
def a_deposed_coordinator_keeps_a_channel(scene: Scene) -> None:
    """A broker has heard that it coordinates no more, and has not closed every channel."""
    scene.contract.deposed(scene.one, [7])


@breaks(Sentence.MONOTONE)
def an_offset_goes_back(scene: Scene) -> None:
    """A smaller offset is stored."""
    scene.tells("c1", 1, 4)
    scene.write(stores(4))


@breaks(Sentence.MONOTONE)
def an_offset_is_deleted(scene: Scene) -> None:
    """An offset's node is deleted."""
    scene.write(Delete("/consumers/g/offsets/orders/0"))


@breaks(Sentence.MONOTONE)
def a_generation_goes_back(scene: Scene) -> None:
    """A smaller generation is written."""
    scene.write(group(1, 2))
    scene.write(group(1, 1))


@breaks(Sentence.MONOTONE)
def the_epoch_of_a_group_goes_back(scene: Scene) -> None:
    """A smaller epoch is written."""
    scene.write(group(2, 2))
    scene.write(group(1, 3))


@breaks(Sentence.MONOTONE)
def a_start_hands_out_less_than_was_committed(scene: Scene) -> None:
    """A Start's offset is one that was committed before the last."""
    scene.contract.commands_start(scene.one, "g", "c1", 1, at(4))


@breaks(Sentence.NOTHING_SKIPPED)
def a_start_skips(scene: Scene) -> None:
    """A new owner starts behind a record that nobody has finished with."""
    scene.contract.stops(scene.c1)
    scene.contract.starts(scene.c2, at(6))


@breaks(Sentence.NOTHING_SKIPPED)
def a_record_is_skipped(scene: Scene) -> None:
    """An owner goes on behind a record that nobody has finished with."""
    scene.processes(6)


@breaks(Sentence.ONLY_FINISHED)
def an_unfinished_record_is_committed(scene: Scene) -> None:
    """What was delivered, and no more, is committed."""
    scene.contract.delivers(scene.c1, ORDERS, 5)
    scene.tells("c1", 1, 6)
    scene.write(stores(6))


@breaks(Sentence.STORED_FIRST)
def delivered_before_its_start_is_stored(scene: Scene) -> None:
    """A record of a partition is delivered for which no offset is stored."""
    other = NamedPartition("orders", "1")
    scene.contract.starts(scene.c1, (Offset("orders", "1", NO_OFFSET),))
    scene.contract.delivers(scene.c1, other, 0)


@breaks(Sentence.ONE_COORDINATOR)
def two_coordinators_in_one_epoch(scene: Scene) -> None:
    """Another broker is told that it coordinates in the same epoch."""
    scene.contract.elected(scene.two, 1)


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.__name__)
def test_a_broken_promise_is_told_by_its_sentence(breach: Breach) -> None:
    """Each way in which a promise can be broken is told by that promise's sentence."""
    scene = Scene()

    with pytest.raises(Broken) as broken:
        breach(scene)

    assert broken.value.sentence is BREACHES[breach]


def test_every_promise_that_is_watched_can_be_broken() -> None:
    """Every sentence has a breach here, but for the two that only a run's end can judge."""
    assert set(BREACHES.values()) == set(Sentence) - {Sentence.COMPLETE, Sentence.SETTLES}
