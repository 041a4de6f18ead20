"""
The three Python clients in every scenario: a suite as users of the broker for tests would write it.

What each client delivers is held against the contract in its fenced form: who was taken for dead
may be given what it has fetched, but nothing that it commits may count.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from herdproof.testing import SCENARIOS, BadBrokerUse, LocalBroker, play
from integration.group_protocol.example_consumers import KINDS, ExampleConsumers

STALE = {"who_begins_does_so_at_the_stored_offset", "committed_offsets_never_go_back"}
KNOWN = {"confluent-kafka": STALE}
"""
What clients do now and then: confluent-kafka 2.16.1, which is given back a partition that it had
two generations before, was seen to deliver a record that it had fetched then, and to go on from the
stored offset after it. Whoever commits each record, as here, commits an offset that goes back. In
each scenario somebody is given back partitions; seen were `slow_handler`, `zombie` and `gone`, and
the same at a real Kafka 3.9.1 (docs/testing_consumers.md).
"""
PATIENCE_S = 60.0
"""Only a failing test waits that long; on a busy machine kafka-python has needed 11 s."""
LONG = [("confluent-kafka", "rolling_restart"), ("kafka-python", "rolling_restart")]
EACH = [
    pytest.param(kind, scenario, marks=[pytest.mark.long] if (kind, scenario) in LONG else [])
    for kind in KINDS
    for scenario in SCENARIOS
]


@pytest.fixture
def consumers(
    request: pytest.FixtureRequest, herdproof_broker: LocalBroker
) -> Iterator[ExampleConsumers]:
    """Consumers of one library, at a broker of their own."""
    if request.param == "aiokafka":
        pytest.importorskip("aiokafka")
    made = KINDS[request.param](herdproof_broker)
    yield made
    made.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(("consumers", "scenario"), EACH, indirect=["consumers"])
def test_consumers_keep_to_the_contract(consumers: ExampleConsumers, scenario: str) -> None:
    """Whatever happens, all is delivered, and only what is known to go wrong does."""
    play(scenario, consumers.broker, consumers, patience_s=PATIENCE_S)

    verdict = consumers.broker.judge(fenced=True)
    kind = next(kind for kind, made in KINDS.items() if made is type(consumers))
    assert set(verdict.sentences) <= KNOWN.get(kind, set()), verdict.broken


def test_a_scenario_that_there_is_not_is_said(herdproof_broker: LocalBroker) -> None:
    """A misspelt scenario is one sentence, with those that there are."""
    with pytest.raises(BadBrokerUse, match="there is no scenario 'rolling': one of rolling_re"):
        play("rolling", herdproof_broker, KINDS["kafka-python"](herdproof_broker))
