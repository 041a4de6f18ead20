"""Campaigns on an adapter: code that steps by itself is not taken to do what it may not."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.conformance.adapter import Refused
from herdproof.conformance.holding import closure
from herdproof.pipeline.campaign.adapter import AdapterSimulated
from herdproof.pipeline.campaign.runs import Asked
from herdproof.protocols.implementation import Implementation
from herdspec.check.protocol import Protocol
from properties.check.entered import entered
from properties.conformance.leases import LEASE, Client, Leases


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


class Blind(Leases):
    """Nothing is seen of it."""

    def observe(self) -> dict[str, Any]:
        """Nothing."""
        return {}


class Shy(Leases):
    """It never does anything."""

    reluctant = ("ask",)

    def ask(self, c: Client) -> None:
        """Nobody may."""
        raise Refused(str(c))


class Hanging(Leases):
    """A call of it does not return."""

    timeout = 0.05

    def ask(self, c: Client) -> None:
        """A client asks, and waits."""
        super().ask(c)
        Event().wait(5)


PROVES_NOTHING = {
    Blind: "nothing was seen of the code",
    Shy: "no step was taken",
}


def campaign(adapter: type[Leases], *words: str) -> Any:
    """What the command says of an adapter, and its JSON."""
    made = Implementation(Protocol("lease", lambda: LEASE), adapter=lambda _: adapter)
    with entered(lease=made):
        return CliRunner().invoke(app, ["campaign", "lease", *words])


@pytest.mark.parametrize("adapter", PROVES_NOTHING)
def test_an_adapter_that_proves_nothing_is_unknown(adapter: type[Leases], tmp_path: Path) -> None:
    """Never kept: the reason is in the text, in the JSON and in the exit code."""
    why = PROVES_NOTHING[adapter]
    done = campaign(adapter, "--runs", "2", "--out", str(tmp_path / "out"), "--json",
                    str(tmp_path / "json"))  # fmt: skip
    told = json.loads((tmp_path / "json").read_text())

    assert done.exit_code == told["exit"] == 3, done.output
    assert "2 runs could not be judged" in done.output
    assert f"--seed 0 --mix 2 of each: {why}" in done.output
    assert told["outcomes"] == {"unknown": 2}
    assert [run["told"] for run in told["first_unknown"]] == [why, why]


@pytest.mark.parametrize("adapter", PROVES_NOTHING)
def test_its_single_run_says_why(adapter: type[Leases]) -> None:
    """The story, the verdict of its own monitor, and the last line."""
    why = PROVES_NOTHING[adapter]
    done = campaign(adapter, "--seed", "0", "--json", "-")
    told = json.loads(done.stdout)

    assert done.exit_code == told["exit"] == 3, done.output
    assert (told["outcome"], told["told"]) == ("unknown", why)
    assert told["story"][0] == f"Seed 0 shows nothing: {why}."
    own = {v["property"]: (v["verdict"], v["why"]) for v in told["verdicts"]}
    assert own["follows_the_spec"] == ("unknown", why)


def test_the_audit_of_a_protocol_lists_what_that_promises() -> None:
    """Its replay and its walk: the sentences about consumer groups are not its own."""
    done = campaign(Leases, "--seed", "0", "--json", "-")
    told = json.loads(done.stdout)

    assert done.exit_code == 0, done.output
    assert {v["property"]: v["verdict"] for v in told["verdicts"]} == {
        "conforms": "holds", "follows_the_spec": "holds",
    }  # fmt: skip


def test_more_states_than_are_carried_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that had to end early is no walk that was kept."""
    monkeypatch.setattr(closure, "CARRIED", 1)

    done = campaign(AtOnce, "--seed", "0")

    assert done.exit_code == 3, done.output
    assert "Unknown: Lease may be in more than 1 states" in " ".join(done.output.split())


def test_a_call_that_does_not_return_is_no_pass() -> None:
    """It is named, as by `verify`: the code did not do what the spec lets it do."""
    done = campaign(Hanging, "--seed", "0")

    assert done.exit_code == 1, done.output
    assert "`ask` did not return within 0.05 s." in done.output
