"""What a test says was delivered, and what the contract says to that."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from herdproof.protocols.group_protocol.testing.broker import RecordPlace
from herdproof.testing import BadBrokerUse, ContractBroken, LocalBroker
from properties.protocols.group_protocol.testing.wired import WiredClient


class Told:
    """A topic of one partition, a group of two plain clients, and who was given what."""

    def __init__(self, broker: LocalBroker) -> None:
        self.broker = broker
        self.broker.create_topic("t", partitions=1)
        self.broker.produce("t", *"abcdef")
        self.first = WiredClient(broker.bootstrap, "a")
        self.second = WiredClient(broker.bootstrap, "b")

    def gives(self, member: str, *offsets: int) -> None:
        """A member is given records."""
        for offset in offsets:
            self.broker.delivered(member, RecordPlace("t", 0, offset))

    def passes_on(self) -> None:
        """The first one's session ends, and the second one owns the partition."""
        self.broker.expire("a")
        self.second.own(0)


@pytest.fixture
def told(herdproof_broker: LocalBroker) -> Iterator[Told]:
    """A group whose first member owns the partition."""
    made = Told(herdproof_broker)
    made.first.own(0)
    yield made
    made.first.close()
    made.second.close()


def all_is_well(told: Told) -> None:
    """What was not committed is repeated after the handover, and nothing else."""
    told.gives("a", 0, 1)
    assert told.first.commit(2) == 0
    told.gives("a", 2)
    told.passes_on()
    told.gives("b", 2, 3)


def two_read(told: Told) -> None:
    """The first one is given another record when the second one has begun."""
    told.gives("a", 0)
    told.passes_on()
    told.gives("b", 0)
    told.gives("a", 1)


def one_reads_on_before_the_other_begins(told: Told) -> None:
    """The first one is given another record when its partition is the other's."""
    told.gives("a", 0)
    told.passes_on()
    told.gives("a", 1)


def one_is_skipped(told: Told) -> None:
    """A record in the middle is given to nobody."""
    told.gives("a", 0, 2, 3)


def the_first_is_skipped(told: Told) -> None:
    """The first record is given to nobody."""
    told.gives("a", 1)


def one_is_skipped_at_a_handover(told: Told) -> None:
    """Who takes over begins behind the stored offset."""
    told.gives("a", 0)
    assert told.first.commit(1) == 0
    told.passes_on()
    told.gives("b", 2)


def a_commit_goes_back(told: Told) -> None:
    """An offset is overwritten by a smaller one."""
    told.gives("a", 0, 1)
    assert told.first.commit(2) == 0
    assert told.first.commit(1) == 0


def more_is_committed_than_was_given(told: Told) -> None:
    """An offset is committed of what nobody was given."""
    told.gives("a", 0)
    assert told.first.commit(5) == 0


def more_is_repeated_than_was_uncommitted(told: Told) -> None:
    """Who takes over begins before the stored offset."""
    told.gives("a", 0, 1)
    assert told.first.commit(2) == 0
    told.passes_on()
    told.gives("b", 1)


Run = Callable[[Told], None]
RUNS: dict[Run, tuple[set[str], int]] = {
    all_is_well: (set(), 1),
    two_read: ({"exclusive", "who_consumes_owns"}, 1),
    one_reads_on_before_the_other_begins: ({"who_consumes_owns"}, 0),
    one_is_skipped: ({"nobody_is_past_the_unfinished"}, 0),
    the_first_is_skipped: ({"nobody_is_past_the_unfinished"}, 0),
    one_is_skipped_at_a_handover: (
        {"nobody_is_past_the_unfinished", "who_begins_does_so_at_the_stored_offset"}, 0,
    ),
    a_commit_goes_back: ({"committed_offsets_never_go_back"}, 0),
    more_is_committed_than_was_given: ({"only_finished_is_committed"}, 0),
    more_is_repeated_than_was_uncommitted: ({"who_begins_does_so_at_the_stored_offset"}, 1),
}  # fmt: skip
"""Which sentences each breaks, and how many records it repeats."""


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_the_contract_judges(run: Run, told: Told) -> None:
    """Each kind of trouble breaks the sentences that are about it, and no others."""
    run(told)

    verdict = told.broker.judge()

    assert (set(verdict.sentences), verdict.repeats) == RUNS[run]


def test_a_broken_sentence_is_told_in_the_contracts_words(told: Told) -> None:
    """A failing test reads what was promised, and by whom and where it was broken."""
    two_read(told)

    with pytest.raises(ContractBroken) as broken:
        told.broker.judge("g").check()

    assert "at no time do two members consume the same partition" in str(broken.value)
    assert "('t', 0)" in str(broken.value)


def test_who_is_fenced_may_read_on(told: Told) -> None:
    """With `fenced`, a zombie that is given records counts no more; its commits are refused."""
    two_read(told)

    assert told.first.commit(2) != 0
    told.broker.judge(fenced=True).check()


def test_what_is_left_is_known(told: Told) -> None:
    """Records that nobody was given can be asked for."""
    told.gives("a", 0, 1, 3)

    assert told.broker.undelivered("g", "t") == {("t", 0): [2, 4, 5]}


def test_a_start_at_the_end_is_no_skip(told: Told) -> None:
    """Consumers whose reset is `latest` begin wherever that is."""
    told.gives("a", 4, 5)

    told.broker.judge(reset="latest").check()
    assert told.broker.judge().sentences == ["nobody_is_past_the_unfinished"]


MISUSES: dict[str, tuple[Callable[[LocalBroker], object], str]] = {
    "a stranger": (lambda b: b.delivered("zoe", ("t", 0, 0)), "who never joined a group"),
    "never produced": (lambda b: b.delivered("a", ("t", 0, 6)), "where 6 were produced"),
    "no such topic": (lambda b: b.delivered("a", ("u", 0, 0)), "where 0 were produced"),
    "no record": (lambda b: b.delivered("a", "x"), "say a client's record"),
    "nothing said": (lambda b: b.judge(), "records were delivered to nobody"),
    "no such topic left": (lambda b: b.undelivered("g", "u"), "there is no such topic"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_bad_use_of_the_oracle_is_one_sentence(misuse: str, told: Told) -> None:
    """What cannot be judged is said, and does not pass for judged."""
    use, sentence = MISUSES[misuse]

    with pytest.raises(BadBrokerUse) as said:
        use(told.broker)

    assert sentence in str(said.value)
    assert "\n" not in str(said.value)


def test_members_of_one_name_cannot_be_judged(told: Told) -> None:
    """Two consumers that call themselves the same are told apart by nobody."""
    twin = WiredClient(told.broker.bootstrap, "a")
    head = twin.send(twin.joining(), 3)
    while not told.first.heartbeat():
        pass
    told.first.take(told.first.ask(told.first.joining()))
    twin.take(twin.receive(head))
    twin.close()
    told.gives("a", 0)

    with pytest.raises(BadBrokerUse, match=r"give each consumer a client.id of its own"):
        told.broker.judge()
