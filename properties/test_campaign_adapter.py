"""Campaigns on an adapter: code that steps by itself is not taken to do what it may not."""

from __future__ import annotations

import pytest

from herdproof.pipeline.campaign_adapter import AdapterSimulated
from herdproof.pipeline.campaign_runs import Asked
from herdproof.protocols.implementation import Implementation
from herdspec.check.protocol import Protocol
from properties.leases import LEASE, Client, Leases


class AtOnce(Leases):
    """It grants as soon as somebody asks, within the call."""

    pumped = False

    def ask(self, c: Client) -> None:
        """A client asks."""
        super().ask(c)
        self.core.turn()


def walked(adapter: type[Leases], seed: int) -> tuple[bool, str]:
    """Whether the code of a walk went elsewhere, and what its trace comes to."""
    entered = Implementation(Protocol("lease", lambda: LEASE), adapter=lambda _: adapter)
    simulated = entered.simulates()
    assert isinstance(simulated, AdapterSimulated)
    ran = simulated.run(Asked("lease", seed, seed, "3 of each", ""))
    lines = [entered.audits().read(text, "code") for text in ran.texts]
    found, _, _ = simulated.replay(lines, ran)
    return ran.broken is not None, found.verdict + found.told


@pytest.mark.parametrize("adapter", [Leases, AtOnce])
def test_code_that_is_right_conforms(adapter: type[Leases]) -> None:
    """Where the walk sees no difference, neither does the replay of its trace."""
    assert {walked(adapter, seed) for seed in range(5)} == {(False, "conforms")}
