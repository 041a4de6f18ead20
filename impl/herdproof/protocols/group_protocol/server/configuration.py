"""The settings of `herdproof broker`: those of its listener, its records, its groups."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from herdproof.broker.sasl import SaslLogin, SaslSection
from herdproof.broker.settings import KafkaListener, RecordLimits
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.shells.configuration import (
    LogSection,
    MetricsSection,
    ZooKeeperSection,
    read_settings,
)
from herdproof.shells.tls import Tls


class BrokerConfiguration(BaseModel):
    """All settings of a broker's process; each field is a table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    broker_id: int = 1
    """The broker's id: as clients are told of it (by itself), and among those that are elected."""
    groups: GroupSettings = GroupSettings()
    records: RecordLimits = RecordLimits()
    listener: KafkaListener = KafkaListener()
    tls: Tls | None = None
    sasl: SaslSection | None = None
    """Who gets in, by itself; None: everybody."""
    kafka: SaslLogin | None = None
    """As whom the Kafka behind is asked; None: it asks for no SASL."""
    zookeeper: ZooKeeperSection | None = None
    """Where groups are stored, and one of several brokers is elected; None: in memory."""
    metrics: MetricsSection = MetricsSection()
    log: LogSection = LogSection()


def read_broker(file: Path | None, overrides: Mapping[str, Any]) -> BrokerConfiguration:
    """The settings of a file (or none), with what the command line says instead."""
    return read_settings(BrokerConfiguration, file, overrides)
