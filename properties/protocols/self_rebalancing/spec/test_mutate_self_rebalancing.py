"""Mistakes in the self-rebalancing consumers: guards that are missed, and reasons that are true."""

from __future__ import annotations

from functools import cache

import pytest

from herdspec import specification
from herdspec.check.exploration.explore import explore
from herdspec.check.mutation.mutants import Mutant, mutants
from herdspec.check.mutation.mutate import failing, reasons_of
from herdspec.protocols.self_rebalancing import accepted_mutants as why
from herdspec.protocols.self_rebalancing.properties import NOTICING
from herdspec.protocols.self_rebalancing.spec import SelfRebalancing

pytestmark = pytest.mark.xdist_group("mutate self-rebalancing")  # its mutants are made once

GUARDS = {
    # The order of the steps, the claim, the fence.
    "close_fetchers: skip `self.close_fetchers_for_queues(m)`": "exclusive",
    "read_offsets: drop `self.has_all(m)`": "exclusive",
    "claim: drop `self.owner[p] is None`": "exclusive",
    "accepts_commit: drop `self.holds(m, p)`": "committed_offsets_never_go_back",
    "holds: drop `self.token[m, p] == self.version[p]`": "exclusive",
    "create_owner: skip `self.version[p] = self.version[p] + 1`": "it_can_settle",
    "commit_offsets: skip `self.submit(m)`": "what_is_finished_is_stored_at_a_release",
    # The lease, watches, and reasons to rebalance.
    "lease_is_over: drop `all(not self.fetching[m, p] for p in Partition)`": "exclusive",
    "read_ids: skip `self.watches_ids[m] = True`": "it_can_settle",
    "read_topics: skip `self.watches_topics[m] = True`": "it_can_settle",
    "reconnect: skip `self.due[m] = True`": "it_can_settle",
}
"""Guards and steps without which a promise fails, with two members, one partition, one fault."""


@cache
def made() -> dict[str, Mutant]:
    """The protocol's mutants, by their ids."""
    return {m.id: m for m in mutants(NOTICING)}


def fails(id: str, promise: str, partitions: int = 1) -> bool:
    """Whether a promise fails where there is this mistake."""
    spec = specification(SelfRebalancing, NOTICING.promise(promise).python)
    sizes = {"Member": 2, "Partition": partitions}
    found = explore(made()[id].of(spec), sizes, faults=1, bound=8)
    return promise in {name for name, _ in failing(found)}


@pytest.mark.parametrize("id", GUARDS)
def test_a_guard_or_a_step_is_missed(id: str) -> None:
    """Without this one a promise fails: no lemma of the proof counts."""
    assert fails(id, GUARDS[id])


def test_no_guard_has_a_reason_to_be_missing() -> None:
    """What is noticed above is accepted nowhere."""
    assert not {*GUARDS} & {*reasons_of(NOTICING)}


def test_every_reason_is_about_a_mutant() -> None:
    """Each accepted mistake is one that is made of the protocol as it stands, and has a reason."""
    reasons = reasons_of(NOTICING)

    assert reasons
    assert {*reasons} <= {*made()}
    assert all(reasons.values())


LARGER = {id: reason for id, reason in why.SURVIVORS.items() if reason == why.LARGER}


@pytest.mark.long
@pytest.mark.parametrize("id", LARGER)
def test_what_needs_a_second_partition_is_noticed_there(id: str) -> None:
    """With two partitions the group cannot settle, or two pull from one partition."""
    assert any(fails(id, promise, partitions=2) for promise in ("it_can_settle", "exclusive"))
