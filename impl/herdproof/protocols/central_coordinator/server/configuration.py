"""
The settings of a coordinator's process, from a TOML file and the command line.

What they have in common with other processes' stands in `shells/configuration.py`, what the core
itself is told in `settings.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.shells.configuration import (
    BadConfiguration,
    Listener,
    LogSection,
    MetricsSection,
    ZooKeeperSection,
    read_settings,
)
from herdproof.shells.tls import Tls


class Configuration(BaseModel):
    """All settings of a coordinator's process; each field is a table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    broker_id: int | None = None
    """The id of the Kafka broker that the coordinator stands beside."""
    coordinator: Settings = Settings()
    listener: Listener = Listener()
    tls: Tls | None = None
    zookeeper: ZooKeeperSection = ZooKeeperSection()
    metrics: MetricsSection = MetricsSection()
    log: LogSection = LogSection()


def check_lease(configuration: Configuration, granted_ms: int) -> None:
    """
    Check that a paused coordinator notices in time, given the ZooKeeper session it was granted.

    After the session's time-out another broker may have been elected: who was paused for longer
    must not believe that it still leads. Raises `BadConfiguration`.
    """
    lease_ms = configuration.coordinator.leadership_lease_ms
    if lease_ms > granted_ms:
        raise BadConfiguration(
            f"coordinator.leadership_lease_ms is {lease_ms}, and the session that ZooKeeper has "
            f"granted lasts only {granted_ms} ms (zookeeper.session_timeout_ms is "
            f"{configuration.zookeeper.session_timeout_ms}): a coordinator that was paused in "
            f"between would not notice that another one may lead. Set "
            f"coordinator.leadership_lease_ms to at most {granted_ms}, or have longer sessions "
            f"(zookeeper.session_timeout_ms, and the ZooKeeper servers' maxSessionTimeout)."
        )


def read(file: Path | None, overrides: Mapping[str, Any]) -> Configuration:
    """The settings of a file (or none), with what the command line says instead."""
    return read_settings(Configuration, file, overrides)
