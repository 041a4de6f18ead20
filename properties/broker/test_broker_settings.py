"""The settings of `herdproof broker`: the page has them all, and what is wrong is named."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from herdproof.broker.settings import KafkaListener, RecordLimits
from herdproof.cli.run.broker import addresses_of
from herdproof.protocols.group_protocol.server.configuration import BrokerConfiguration, read_broker
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.shells.configuration import BadConfiguration
from herdspec.language.errors import UsageError

PAGE = (Path(__file__).parents[2] / "docs" / "broker.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", [KafkaListener(), RecordLimits(), GroupSettings()])
def test_the_page_has_every_setting_with_its_default(table: Any) -> None:
    """A table of docs/broker.md names each one; and what it says of it is so."""
    for field in fields(table):
        value = getattr(table, field.name)
        if field.name in ("host", "port", "advertised_host", "advertised_port"):
            assert f"`{field.name}`" in PAGE
        else:
            assert re.search(rf"\| `{field.name}` \| {value} \|", PAGE), field.name


def test_a_file_is_read_and_the_command_line_wins(tmp_path: Path) -> None:
    """What neither says is the default."""
    file = tmp_path / "broker.toml"
    file.write_text("broker_id = 3\n[records]\nmax_bytes = 10\n[listener]\nport = 1\n")

    found = read_broker(file, {"listener.port": 7, "listener.host": None})

    assert found == BrokerConfiguration(
        broker_id=3, records=RecordLimits(max_bytes=10), listener=KafkaListener(port=7)
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[records]\nmax_byte = 3\n", "no setting records.max_byte .there are max_batch_bytes"),
        ("[records]\nmax_bytes = 'x'\n", "records.max_bytes is 'x'"),
        ("[listener]\nidle_timeout_ms = 0\n", "listener.idle_timeout_ms is 0: it is at least 1"),
        ("[group]\n", "no setting group .there are broker_id, groups"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, why: str) -> None:
    """With what there is instead."""
    file = tmp_path / "broker.toml"
    file.write_text(text)

    with pytest.raises(BadConfiguration, match=why):
        read_broker(file, {})


@pytest.mark.parametrize("hosts", ["", "here", "here:", ":1", "a:1,b", "a:0", "a:65536", "a:x"])
def test_what_is_no_address_is_named(hosts: str) -> None:
    """With what to write."""
    with pytest.raises(UsageError, match="write host:port"):
        addresses_of(hosts)


def test_addresses_are_taken_apart() -> None:
    """One or more, of IPv6, too."""
    assert addresses_of("a:1, b:2,::1:3") == [("a", 1), ("b", 2), ("::1", 3)]
