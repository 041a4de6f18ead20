"""docs/zookeeper.md names every path that the code makes, and shows what it writes there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from herdproof.consuming.subscription import named
from herdproof.protocols.central_coordinator.coordinator.groups import Owner
from herdproof.protocols.central_coordinator.coordinator.members.recovery import (
    owner_data,
    point_data,
)
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.election import elector
from herdproof.protocols.group_protocol.effects import StoredCommit
from herdproof.protocols.group_protocol.server.standing import PATHS as STANDING
from herdproof.protocols.group_protocol.server.standing import REGISTRATIONS
from herdproof.protocols.group_protocol.stores.zookeeper import GroupPaths
from herdproof.protocols.self_rebalancing.registries.paths import (
    BROKER_IDS,
    TOPICS,
    GroupDirs,
    topic_path,
)
from herdproof.protocols.self_rebalancing.registries.registrations import encoded, registration_of
from herdproof.zookeeper.names import unquoted

PAGE = (Path(__file__).parents[2] / "docs" / "zookeeper.md").read_text(encoding="utf-8")

PLACE = ("[topic]", "[partition]")
NAMES: dict[str, Any] = {
    "group": "[group]", "topic": "[topic]", "partition": "[partition]", "where": PLACE,
    "consumer_id": "[consumer]", "broker_id": "[broker]",
}  # fmt: skip
"""What the arguments of paths are called on the page."""
NO_PATHS = {"root", "consumers", "brokers", "election", "group", "named"}
"""Members of the layouts that are parts of paths, or none."""


def made_by(layout: object, names: dict[str, Any]) -> Iterator[str]:
    """The paths that a layout makes, of names as the page has them."""
    for name, member in inspect.getmembers(type(layout)):
        if name.startswith("_") or (name in NO_PATHS and not callable(member)) or name == "named":
            continue
        if callable(member):
            wanted = list(inspect.signature(member).parameters)[1:]
            yield unquoted(member(layout, *(names[each] for each in wanted)))
        elif isinstance(found := getattr(layout, name), str):
            yield found


def section(title: str) -> set[str]:
    """The paths in a section's table."""
    [text] = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return set(re.findall(r"^\| `(/[^`]*)`", text, re.M))


KAFKA = section("Kafka's own")
ELECTION = section("The election of a coordinator")


def test_every_path_of_the_central_coordinator_stands_on_the_page() -> None:
    """And no other."""
    election = elector.ElectionPaths()
    made = set(made_by(Paths(), NAMES))

    assert {election.leader, election.epoch} < ELECTION
    assert made - KAFKA == section("A group with a central coordinator")


def test_every_path_of_members_that_rebalance_by_themselves_stands_there() -> None:
    """With those of Kafka's own."""
    made = set(made_by(GroupDirs("[group]"), {**NAMES, "partition": PLACE})) - {"[group]"}

    assert made == section("A group that rebalances by itself")
    assert (
        {BROKER_IDS, TOPICS, topic_path("[topic]")}
        <= KAFKA
        == {path for path in made_by(Paths(), NAMES) if path.startswith("/brokers")}
    )


def test_every_path_of_the_group_protocol_stands_there() -> None:
    """Its election too."""
    made = {*made_by(GroupPaths(), NAMES), f"{REGISTRATIONS}/[broker]"}

    assert made == section("Groups of `herdproof broker --zookeeper`")
    both = {elector.ElectionPaths().leader, elector.ElectionPaths().epoch}
    assert {STANDING.election.leader, STANDING.election.epoch} == ELECTION - both


WRITTEN = {
    "a leader": elector.leader_data("2", 7),
    "a commit point": point_data(7, 3, 1, 10_000),
    "an owner": owner_data(Owner("c1", "3-1"), 7),
    "a registration": encoded(registration_of(named({"orders": 2}), 1_416_000_000_000)),
    "a committed offset": msgspec.json.encode(StoredCommit(offset=42)),
}
"""What the code writes."""


@pytest.mark.parametrize("what", WRITTEN)
def test_what_is_written_stands_there(what: str) -> None:
    """To the byte."""
    assert f"`{WRITTEN[what].decode()}`" in PAGE
