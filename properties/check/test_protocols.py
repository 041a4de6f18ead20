"""Protocols are found by entry points, each entered once; what is entered wrongly is said."""

from __future__ import annotations

import re
import zipfile
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from herdproof.cli.specs import find, known
from herdproof.pipeline.spark.session import packed
from herdproof.protocols.implementation import Implementation, implementation
from herdspec.check import protocol as protocols
from herdspec.check.plans import QUICK, plan_of
from herdspec.check.protocol import GROUP, Protocol, in_order, names, protocol
from herdspec.language.errors import UsageError
from herdspec.protocols.flaws import Failure, Flaw
from properties.check.entered import entered
from properties.conformance.leases import LEASE, Lease

ROOT = Path(__file__).parents[2]


def test_our_protocols_come_in_the_order_in_which_they_build_on_each_other() -> None:
    """The election before system B, which is coordinated by whom it elects."""
    assert names() == ("central_coordinator", "election", "group_protocol", "self_rebalancing")
    assert in_order() == ["election", "central_coordinator", "group_protocol", "self_rebalancing"]
    assert [protocol(name).name for name in names()] == [*names()]


def test_every_list_of_protocols_reads_the_entry_points() -> None:
    """Another protocol in their place, and no command knows ours any more."""
    with entered(lease=Protocol("lease", lambda: LEASE)):
        assert known() == ["lease"]
        assert find("lease").spec is LEASE
        assert implementation("lease") == Implementation(protocol("lease"))
        with pytest.raises(UsageError, match="no spec 'election'"):
            find("election")


def test_no_protocol_is_named_outside_of_its_entry() -> None:
    """The commands and readings that serve all protocols import none."""
    places = ["spec/herdspec/check", "impl/herdproof/conformance"]
    found = [
        f"{path}: {line}"
        for place in places
        for path in sorted((ROOT / place).rglob("*.py"))
        for line in re.findall(
            r"^\s*(?:from|import) (?:herdspec\.protocols\.(?!flaws)\S*|herdproof\.(?:link|"
            r"central_coordinator|protocols\.(?!implementation))\S*)",
            path.read_text(),
            re.MULTILINE,
        )
    ]

    assert found == []


def test_two_distributions_cannot_claim_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are named, and what to do."""
    two = [EntryPoint("lease", f"{package}:IT", GROUP) for package in ("one", "another")]
    monkeypatch.setattr(protocols, "entry_points", lambda **_: two)
    protocols.entries.cache_clear()
    try:
        with pytest.raises(UsageError, match="two protocols are called 'lease': one:IT and"):
            names()
    finally:
        protocols.entries.cache_clear()


def test_the_same_entry_may_be_found_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation, and the zip that is sent to Spark's workers, say the same."""
    same = [EntryPoint("lease", "one:IT", GROUP)] * 2
    monkeypatch.setattr(protocols, "entry_points", lambda **_: same)
    protocols.entries.cache_clear()
    try:
        assert names() == ("lease",)
    finally:
        protocols.entries.cache_clear()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (3, "names no Protocol of that name"),
        (Protocol("other", lambda: LEASE), "names no Protocol of that name"),
    ],
)
def test_an_entry_that_is_no_protocol_is_said(made: object, said: str) -> None:
    """With the entry's value, and what it should name."""
    with entered(lease=made), pytest.raises(UsageError, match=said):
        protocol("lease")


def test_an_entry_that_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module that is missing is named."""
    entry = EntryPoint("lease", "no_such_module:IT", GROUP)
    monkeypatch.setattr(protocols, "entries", lambda: {"lease": entry})
    protocols.entry.cache_clear()

    with pytest.raises(UsageError, match="cannot be read from no_such_module:IT"):
        protocol("lease")


def test_a_protocol_without_a_plan_is_checked_as_anybodys_spec() -> None:
    """Verified, drafted and flawed specs stand in the usual tables; the draft must fail."""
    wrong = Flaw(LEASE.drop("write"), frozenset(), {"somebody_is_late": Failure(0, "")})

    with entered(lease=Protocol("lease", lambda: LEASE, flaws=lambda: {"no_write": wrong})):
        plan = plan_of("lease", QUICK)

    assert plan.columns == ("verified",)
    assert plan.flaws == ("no_write",)
    assert [check.name.split(":")[0] for check in plan.checks] == [
        "explore verified", "prove verified", "explore no_write",
    ]  # fmt: skip
    assert plan.specs["verified"].state is Lease


def test_another_form_of_a_protocol_has_a_name_and_is_checked_with_it() -> None:
    """It is named behind a dash, whatever dashes the protocol has; one that is none is said."""
    forms = {"resuming": LEASE}
    of = {"long-lease": Protocol("long-lease", lambda: LEASE, variants=lambda: forms)}

    with entered(**of):
        plan = plan_of("long-lease", QUICK)
        assert known() == ["long-lease", "long-lease-resuming"]
        assert (find("long-lease-resuming").spec, find("long-lease").name) == (LEASE, "long-lease")
        with pytest.raises(UsageError, match=r"no spec .* \(did you mean long-lease-resuming\?\)"):
            find("long-lease-resumin")

    assert plan.others == ("resuming",)
    assert {c.name.split(":")[0] for c in plan.checks} > {"explore resuming", "prove resuming"}


def test_verify_looks_at_each_form_of_our_protocols_that_the_code_has() -> None:
    """Members that resume are what a coordinator has by default; Kafka's clients have the rest."""
    looked = {
        name: {check.name.split(":")[0].split(" to ")[0] for check in plan_of(name, QUICK).checks}
        for name in ("central_coordinator", "group_protocol")
    }

    assert looked["central_coordinator"] > {
        "explore resuming", "liveness of resuming", "prove resuming", "refine resuming",
    }  # fmt: skip
    assert looked["group_protocol"] > {"explore static", "explore cooperative"}


def test_the_zip_for_spark_enters_every_protocol(tmp_path: Path) -> None:
    """Workers have no installation; they find the protocols in the zip."""
    with zipfile.ZipFile(packed(tmp_path)) as archive:
        (listed,) = (n for n in archive.namelist() if n.endswith("entry_points.txt"))
        text = archive.read(listed).decode()

    assert text.splitlines()[0] == f"[{GROUP}]"
    for name, entry in protocols.entries().items():
        assert f"{name} = {entry.value}" in text


def test_what_failures_are_declared_for_is_said_in_the_specs_own_sorts() -> None:
    """How many of each, and how many faults; where none is declared there is nothing to say."""
    wrong = Flaw(LEASE.drop("write"), frozenset(), {"somebody_is_late": Failure(0, "")})

    with entered(lease=Protocol("lease", lambda: LEASE, flaws=lambda: {"no_write": wrong})):
        assert find("lease").expected == ""
        subject = replace(find("lease/no_write"), sizes={"Client": 3}, faults=1)

    assert "are declared for 3 clients and 1 fault; at this size" in subject.expected
