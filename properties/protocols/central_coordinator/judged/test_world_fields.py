"""What the simulator's world tells fills the contract's fields, and its properties judge it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import pytest

from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset
from herdproof.protocols.central_coordinator.judged.world_fields import Fields
from herdproof.protocols.central_coordinator.judged.world_promises import (
    AT_AN_END,
    AT_THE_END,
    INITIAL,
    NOT_FILLED,
    OWN_WATCHES,
    PROMISED,
    SETTLED,
    WATCHES,
    PromiseBroken,
    not_named,
)
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.world import Run
from herdproof.simulator.clock import Timeline
from herdproof.zookeeper.operations import Check, Create, Delete, Multi, Set
from herdspec.check.observation.observed import Ruling
from herdspec.language.declared import Field
from herdspec.language.types import BOOL
from herdspec.protocols.contract.properties import CONTRACT

EPOCH = "/herdproof/election/epoch"
ORDERS = NamedPartition("orders", "0")


@dataclass(eq=False)
class Consumer:
    """A consumer's process, as it is seen from outside."""

    name: str
    delivers: bool = True

    def may_deliver(self) -> bool:
        """Whether it could deliver now."""
        return self.delivers


@dataclass(eq=False)
class Broker:
    """A broker's process, as it is seen from outside."""

    name: str
    broker: str


def at(offset: int) -> tuple[Offset, ...]:
    """An offset of the one partition."""
    return (Offset("orders", "0", offset),)


def owner(consumer: str, generation: int) -> Create:
    """An owner node is written."""
    data = {"consumer": consumer, "member": f"1-{consumer}", "generation": generation}
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
        self.fields = Fields(Timeline(), EPOCH, frozenset(PROMISED))
        self.group = self.fields.of("g")
        self.one, self.two = Broker("broker1", "1"), Broker("broker2", "2")
        self.c1, self.c2 = Consumer("c1"), Consumer("c2")
        self.group.admits(self.c1, "1-c1")
        self.group.admits(self.c2, "1-c2")
        self.fields.wrote(self.one, Set(EPOCH, b"1"), coordinates=False)
        self.fields.coordinates("1", 1)
        self.write(owner("c1", 1), group(1, 1))
        self.group.commands(self.one, self.c1, 1, at(NO_OFFSET))
        self.group.starts(self.c1, 1, at(NO_OFFSET))
        self.group.resolves(self.c1, *at(5))
        self.tells(self.c1, 1, 5)
        self.write(stores(5))
        self.group.is_stored(self.c1, ORDERS)
        self.group.confirms(self.one, self.c1, at(5))

    def write(self, *parts: Create | Set | Delete | Check) -> None:
        """The coordinator's write is accepted."""
        self.fields.wrote(self.one, Multi((Check(EPOCH, 1), *parts)), coordinates=True)

    def tells(self, consumer: Consumer, generation: int, offset: int) -> None:
        """A consumer tells the coordinator an offset."""
        self.group.hears(self.one, consumer, generation, "reported", at(offset))

    def processes(self, *offsets: int) -> None:
        """c1's application takes records and finishes with them."""
        for offset in offsets:
            self.group.delivers(self.c1, ORDERS, offset)
            self.group.finishes(self.c1, ORDERS, offset)

    def gives_another(self) -> NamedPartition:
        """c1 is given another partition, of which no offset is stored."""
        data = {"consumer": "c1", "member": "1-c1", "generation": 2}
        self.group.stops(self.c1)
        self.write(Create("/consumers/g/owners/orders/1", json.dumps(data).encode()), group(1, 2))
        self.group.starts(self.c1, 2, (Offset("orders", "1", NO_OFFSET),))
        return NamedPartition("orders", "1")

    def hands_over(self) -> None:
        """What c1 has processed is stored, and c2 owns the partition in generation 2."""
        self.processes(5, 6)
        self.group.stops(self.c1)
        self.tells(self.c1, 1, 7)
        self.write(stores(7))
        self.write(owner("c2", 2), group(1, 2))
        self.group.commands(self.one, self.c2, 2, at(7))
        self.group.starts(self.c2, 2, at(7))


def test_a_run_that_keeps_every_promise_breaks_none() -> None:
    """Handing over, with a pause, a repeated commit and a new coordinator, breaks no promise."""
    scene = Scene()

    scene.c1.delivers = False
    scene.write(stores(5))
    scene.c1.delivers = True
    scene.group.wakes(scene.c1)
    scene.hands_over()
    scene.tells(scene.c1, 1, 6)  # of the past generation: it does not count
    scene.tells(scene.c2, 2, 7)
    scene.write(stores(7))
    scene.group.sees(scene.c2, 1)
    scene.group.obeys(scene.c2, 1)
    scene.fields.wrote(scene.two, Set(EPOCH, b"2"), coordinates=False)
    scene.fields.deposed(scene.one, [])
    scene.fields.coordinates("2", 2)
    scene.fields.coordinates("2", 2)
    scene.group.commands(scene.one, scene.c1, 1, at(5))  # of the past: c1's fence refuses it
    scene.group.stops(scene.c2)
    scene.fields.wrote(scene.two, Multi((Check(EPOCH, 2), group(2, 3))), coordinates=True)

    assert scene.fields.counts["generations"] == 3
    assert scene.group.get("committed", ("orders", "0")) == 8
    assert scene.group.get("owner", ("orders", "0")) is None


Breach: TypeAlias = Callable[[Scene], None]

BREACHES: dict[Breach, str] = {}


def breaks(promise: str) -> Callable[[Breach], Breach]:
    """What follows breaks this promise."""

    def decorate(breach: Breach) -> Breach:
        BREACHES[breach] = promise
        return breach

    return decorate


@breaks("exclusive")
def two_consume(scene: Scene) -> None:
    """The other one starts before the first has stopped."""
    scene.group.starts(scene.c2, 1, at(5))


@breaks("exclusive")
def two_consume_after_a_pause(scene: Scene) -> None:
    """The first was paused when the other started, and goes on."""
    scene.c1.delivers = False
    scene.write(owner("c2", 2), group(1, 2))
    scene.group.starts(scene.c2, 2, at(5))
    scene.c1.delivers = True
    scene.group.wakes(scene.c1)


@breaks("exclusive")
def another_one_delivers(scene: Scene) -> None:
    """Both have come to deliver, and one does."""
    scene.c1.delivers = False
    scene.write(owner("c2", 2), group(1, 2))
    scene.group.starts(scene.c2, 2, at(5))
    scene.c1.delivers = True
    scene.group.delivers(scene.c2, ORDERS, 5)


@breaks("exclusive")
def it_delivers_whatever_it_says(scene: Scene) -> None:
    """Whoever delivers consumes, even if it says that it may not deliver."""
    scene.c1.delivers = False
    scene.write(owner("c2", 2), group(1, 2))
    scene.group.starts(scene.c2, 2, at(5))
    scene.group.delivers(scene.c1, ORDERS, 5)


@breaks("who_consumes_owns")
def it_consumes_on_at_the_handover(scene: Scene) -> None:
    """The partition is given to another one while the first consumes."""
    scene.write(owner("c2", 2), group(1, 2))


@breaks("who_consumes_owns")
def a_start_before_its_owners_are_written(scene: Scene) -> None:
    """A Start of a generation that ZooKeeper does not know is obeyed."""
    scene.group.stops(scene.c1)
    scene.group.starts(scene.c2, 2, at(5))


@breaks("who_consumes_owns")
def a_start_before_the_last_part_is_written(scene: Scene) -> None:
    """The owners stand, but not the group's node, which makes them valid."""
    scene.group.stops(scene.c1)
    scene.write(owner("c2", 2))
    scene.group.starts(scene.c2, 2, at(5))


@breaks("exclusive_fenced")
def an_offset_of_who_does_not_own(scene: Scene) -> None:
    """What another member told is stored."""
    scene.processes(5)
    scene.tells(scene.c2, 1, 6)
    scene.write(stores(6))


@breaks("exclusive_fenced")
def an_offset_of_a_past_generation(scene: Scene) -> None:
    """The owner is the same, but spoke in the generation before."""
    scene.processes(5)
    scene.write(owner("c1", 2), group(1, 2))
    scene.tells(scene.c1, 1, 6)
    scene.write(stores(6))


@breaks("exclusive_fenced")
def an_offset_that_nobody_told(scene: Scene) -> None:
    """What is stored was made up."""
    scene.processes(5)
    scene.write(stores(6))


@breaks("exclusive_fenced")
def an_offset_stored_after_the_handover(scene: Scene) -> None:
    """The owner told it in time, but it is stored when the partition is another one's."""
    scene.processes(5)
    scene.tells(scene.c1, 1, 6)
    scene.group.stops(scene.c1)
    scene.write(owner("c2", 2), group(1, 2))
    scene.write(stores(6))


@breaks("exclusive_fenced")
def an_offset_stored_in_the_owners_next_generation(scene: Scene) -> None:
    """The owner told it in time, and owns the partition again, but in another generation."""
    scene.processes(5)
    scene.tells(scene.c1, 1, 6)
    scene.write(owner("c1", 2), group(1, 2))
    scene.write(stores(6))


@breaks("exclusive_fenced")
def accepted_from_who_does_not_own(scene: Scene) -> None:
    """A commit that changes nothing is accepted from another member."""
    scene.tells(scene.c2, 1, 5)
    scene.group.confirms(scene.one, scene.c2, at(5))


@breaks("what_is_said_is_of_the_present_generation")
def who_has_not_begun_is_heard(scene: Scene) -> None:
    """A member says how far it is in a generation in which it has not begun."""
    scene.tells(scene.c2, 1, 5)


@breaks("stored_as_taken")
def accepted_and_not_stored(scene: Scene) -> None:
    """A commit is answered before it is stored."""
    scene.processes(5)
    scene.tells(scene.c1, 1, 6)
    scene.group.confirms(scene.one, scene.c1, at(6))


@breaks("what_was_taken_is_stored_at_the_handover")
def what_was_stored_is_gone_at_the_handover(scene: Scene) -> None:
    """The offset's node is deleted with the write of the next owners."""
    scene.group.stops(scene.c1)
    scene.write(Delete("/consumers/g/offsets/orders/0"), owner("c2", 2), group(1, 2))


@breaks("only_the_present_epoch_writes")
def a_write_of_a_past_coordinator(scene: Scene) -> None:
    """ZooKeeper accepts a write of a broker after another one's election."""
    scene.fields.wrote(scene.two, Set(EPOCH, b"2"), coordinates=False)
    scene.group.stops(scene.c1)
    scene.write(group(1, 2))


@breaks("only_the_present_epoch_writes")
def a_write_of_nobody(scene: Scene) -> None:
    """A generation is written by somebody who writes in no epoch."""
    scene.group.stops(scene.c1)
    scene.fields.wrote(scene.one, group(1, 2), coordinates=False)


@breaks("only_the_present_epoch_writes")
def a_write_that_says_another_epoch(scene: Scene) -> None:
    """The group's node says another epoch than its writer's."""
    scene.group.stops(scene.c1)
    scene.write(group(2, 2))


@breaks("members_follow_no_older_epoch")
def a_past_epoch_is_obeyed(scene: Scene) -> None:
    """A consumer that has seen a later epoch obeys an earlier one's coordinator."""
    scene.group.sees(scene.c1, 2)
    scene.group.obeys(scene.c1, 1)


@breaks("who_does_not_lead_commands_nobody")
def a_deposed_coordinator_keeps_a_channel(scene: Scene) -> None:
    """A broker has heard that it coordinates no more, and has not closed every channel."""
    scene.fields.deposed(scene.one, [7])


@breaks("committed_offsets_never_go_back")
def an_offset_goes_back(scene: Scene) -> None:
    """A smaller offset is stored."""
    scene.tells(scene.c1, 1, 4)
    scene.write(stores(4))


@breaks("committed_offsets_never_go_back")
def an_offset_is_deleted(scene: Scene) -> None:
    """An offset's node is deleted."""
    scene.write(Delete("/consumers/g/offsets/orders/0"))


@breaks("generations_never_go_back")
def a_generation_goes_back(scene: Scene) -> None:
    """A smaller generation is written."""
    scene.group.stops(scene.c1)
    scene.write(group(1, 2))
    scene.write(group(1, 1))


@breaks("owners_change_with_the_generation")
def an_owner_changes_within_a_generation(scene: Scene) -> None:
    """An owner's node is written anew, and no generation with it."""
    scene.group.stops(scene.c1)
    scene.write(owner("c2", 1))


@breaks("who_begins_does_so_at_the_stored_offset")
def a_start_hands_out_less_than_was_committed(scene: Scene) -> None:
    """A Start's offset is one that was committed before the last."""
    scene.group.stops(scene.c1)
    scene.group.starts(scene.c1, 1, at(4))


@breaks("nobody_is_past_the_unfinished")
def a_start_skips(scene: Scene) -> None:
    """A new owner starts behind a record that nobody has finished with."""
    scene.group.stops(scene.c1)
    scene.group.starts(scene.c1, 1, at(6))


@breaks("nobody_is_past_the_unfinished")
def a_reset_skips(scene: Scene) -> None:
    """A member resolves where to begin, though an offset is stored, and skips records."""
    scene.group.resolves(scene.c1, *at(8))


@breaks("nobody_is_past_the_unfinished")
def a_record_is_skipped(scene: Scene) -> None:
    """An owner goes on behind a record that nobody has finished with."""
    scene.processes(6)


@breaks("nobody_is_past_the_unfinished")
def who_has_stopped_has_skipped_a_record(scene: Scene) -> None:
    """An application finishes with a record that it has had since before its fetchers stopped."""
    scene.group.stops(scene.c1)
    scene.group.finishes(scene.c1, ORDERS, 6)


@breaks("only_finished_is_committed")
def an_unfinished_record_is_committed(scene: Scene) -> None:
    """What was delivered, and no more, is committed."""
    scene.group.delivers(scene.c1, ORDERS, 5)
    scene.tells(scene.c1, 1, 6)
    scene.write(stores(6))


@breaks("a_start_says_what_is_stored")
def a_start_is_sent_before_its_owners_are_written(scene: Scene) -> None:
    """A Start of a generation that ZooKeeper does not know."""
    scene.group.commands(scene.one, scene.c1, 2, at(5))


@breaks("a_start_says_what_is_stored")
def a_start_is_sent_before_the_last_part_is_written(scene: Scene) -> None:
    """The owners stand, but not the group's node, which makes them valid."""
    scene.write(owner("c1", 2))
    scene.group.commands(scene.one, scene.c1, 2, at(5))


@breaks("a_start_says_what_is_stored")
def a_start_is_sent_of_what_another_one_owns(scene: Scene) -> None:
    """A Start of a partition whose owner node names another member."""
    scene.group.commands(scene.one, scene.c2, 1, at(5))


@breaks("a_start_says_what_is_stored")
def a_start_is_sent_of_less_than_was_committed(scene: Scene) -> None:
    """A Start's offset is one that was committed before the last."""
    scene.group.commands(scene.one, scene.c1, 1, at(4))


@breaks("a_resolved_start_is_stored_first")
def told_that_its_start_is_stored(scene: Scene) -> None:
    """A member is told so, and may deliver, and no offset of the partition is stored."""
    scene.gives_another()
    scene.group.resolves(scene.c1, Offset("orders", "1", 0))
    scene.group.is_stored(scene.c1, NamedPartition("orders", "1"))


@breaks("a_resolved_start_is_stored_first")
def finished_before_its_start_is_stored(scene: Scene) -> None:
    """A record of a partition is finished with for which no offset is stored."""
    other = scene.gives_another()
    scene.group.resolves(scene.c1, Offset("orders", "1", 0))
    scene.group.delivers(scene.c1, other, 0)
    scene.group.finishes(scene.c1, other, 0)


@breaks("one_coordinator")
def two_coordinators_in_one_epoch(scene: Scene) -> None:
    """Another broker is told that it coordinates in the same epoch."""
    scene.fields.coordinates("2", 1)


@breaks("an_epoch_is_won_by_one")
def an_epoch_has_another_winner(scene: Scene) -> None:
    """Another broker is told that it has won the present epoch."""
    scene.fields.coordinates("2", 1)


@breaks("one_coordinator")
def two_were_coordinators_in_one_epoch(scene: Scene) -> None:
    """Another broker is told so when a third one has won the next epoch."""
    scene.fields.wrote(scene.two, Set(EPOCH, b"3"), coordinates=False)
    scene.fields.coordinates("2", 1)


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.__name__)
def test_a_broken_promise_is_told_by_its_name(breach: Breach) -> None:
    """A way in which a promise is broken breaks it, where it alone is watched; and something."""
    scene = Scene()
    with pytest.raises(PromiseBroken):
        breach(scene)

    scene = Scene()
    scene.fields.watches = frozenset({BREACHES[breach]})
    with pytest.raises(PromiseBroken) as broken:
        breach(scene)

    assert broken.value.promise == BREACHES[breach]
    assert f"{BREACHES[breach]}, of " in str(broken.value)


def test_who_is_paused_does_not_consume_when_another_one_starts() -> None:
    """Two consume only where both may deliver: it is looked at when the second one starts."""
    scene = Scene()
    scene.fields.watches = frozenset({"exclusive"})
    scene.write(owner("c2", 2), group(1, 2))
    scene.c1.delivers = False

    scene.group.starts(scene.c2, 2, at(5))

    assert not scene.group.get("consumes", (scene.c1, ("orders", "0")))
    assert scene.group.get("consumes", (scene.c2, ("orders", "0")))


UNBREAKABLE = {"epochs_never_go_back": "an epoch is how often the epoch's node was written"}


def test_every_promise_that_is_watched_can_be_broken() -> None:
    """Every promise has a breach here, but for those that only a run's end can judge."""
    assert {*BREACHES.values()} | AT_AN_END | UNBREAKABLE.keys() == PROMISED.keys()


# ── The table ───────────────────────────────────────────────────────────────────────────────


def test_every_field_of_the_contract_is_filled_or_named_with_a_reason() -> None:
    """A field that the contract has, and the table does not name, is a mistake."""
    assert not_named(CONTRACT) == set()
    assert not INITIAL.keys() & NOT_FILLED.keys()
    assert not AT_THE_END.keys() & (INITIAL.keys() | NOT_FILLED.keys())

    more = replace(CONTRACT, fields=(*CONTRACT.fields, Field("leaning", BOOL, False)))
    assert not_named(more) == {"leaning"}


def test_every_promise_of_the_contract_is_judged() -> None:
    """No promise, and none of the protocol's own, speaks of a field that is not filled."""
    for watches in (WATCHES, OWN_WATCHES):
        assert watches.promises
        for promise in watches.promises:
            assert watches.missing(promise) == []


@pytest.mark.parametrize("config", [Config(), Config(brokers=3, consumers=5, faults=40)])
def test_nothing_is_ever_unknown(config: Config) -> None:
    """Every entry is known at every moment: no promise stays open; over some runs, each is held."""
    held: Counter[str] = Counter()
    for seed in range(6):
        run = Run(seed, config)
        assert run.run().violation is None
        for fields in run.fields.groups.values():
            for judgement in fields.seen.judgements():
                assert judgement.ruling in (Ruling.HOLDS, Ruling.NOT_OBSERVABLE), judgement
                assert judgement.open == 0
                held[judgement.promise.name] += judgement.held

    assert {name for name, times in held.items() if not times} == set()
    assert held.keys() == {p.name for p in WATCHES.promises}
    assert SETTLED.name in held
