"""
The settings that processes of every protocol have in common, and how settings are read.

From a TOML file and the command line. A key that does not exist is an error that names it, and so
is a value of another type: a setting that is silently ignored is worse than none.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from herdproof.errors import CallerError
from herdproof.shells.logs import LogForm
from herdproof.zookeeper.client import Digest

EVERYWHERE = ("0.0.0.0", "::", "")
"""Addresses to listen on that nobody can connect to."""


class BadConfiguration(CallerError):
    """A setting is unknown, of the wrong type, or makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Where a process listens, and what it takes from a peer."""

    host: str = "127.0.0.1"
    port: int = 9192
    """0 chooses a free one."""
    advertised_host: str = ""
    """Host that clients are told to connect to; "" is `host`."""
    advertised_port: int = 0
    """Port that clients are told to connect to; 0 is the port that is listened on."""
    max_frame_bytes: int = 1 << 20
    """A frame that says it is larger is refused, and its connection closed."""
    max_unsent_bytes: int = 4 << 20
    """A connection whose peer leaves more than this unread is closed."""
    frame_timeout_ms: int = 10_000
    """Longest wait for a new connection's first frame, and for any frame to become whole."""
    close_timeout_ms: int = 2_000
    """Longest time that a closed connection may take to send what is still unsent."""

    def __post_init__(self) -> None:
        least = {"port": 0, "advertised_port": 0}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < least.get(field.name, 1):
                raise BadConfiguration(
                    f"listener.{field.name} is {value}: it is at least {least.get(field.name, 1)}."
                )
        if max(self.port, self.advertised_port) > 65_535:
            raise BadConfiguration("listener.port and advertised_port are at most 65535.")
        if self.host in EVERYWHERE and not self.advertised_host:
            raise BadConfiguration(
                f"listener.host {self.host!r} is no address that clients could connect to: set "
                f"listener.advertised_host to the one that they reach this machine by."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSection:
    """The ZooKeeper that is used, and as whom."""

    hosts: str = "127.0.0.1:2181"
    """"host:port,host:port", with the brokers' chroot if they have one."""
    session_timeout_ms: int = 6_000
    """Time for which a dead process keeps its place; the server may grant another one."""
    user: str = ""
    """With a user, the nodes that are created can be changed by nobody else."""
    password_file: str = ""
    """A file that holds the user's password, and nothing else."""

    def __post_init__(self) -> None:
        if self.session_timeout_ms < 100:
            raise BadConfiguration(
                f"zookeeper.session_timeout_ms is {self.session_timeout_ms}: it is at least 100."
            )
        if bool(self.user) != bool(self.password_file):
            raise BadConfiguration("zookeeper.user and zookeeper.password_file go together.")

    def digest(self) -> Digest | None:
        """The user with the password, read from its file; raises `BadConfiguration`."""
        if not self.user:
            return None
        try:
            password = Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as problem:
            raise BadConfiguration(
                f"zookeeper.password_file {self.password_file} cannot be read: {problem}."
            ) from problem
        return Digest(self.user, password)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSection:
    """Settings of the metrics that Prometheus reads."""

    port: int | None = None
    """None: no metrics are served; 0 takes a free one."""
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= 65_535:
            raise BadConfiguration(f"metrics.port is {self.port}: it is 0 to 65535.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSection:
    """Settings of the process's log, on stderr."""

    form: LogForm = LogForm.TEXT
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    """Nothing below this is logged."""


Settings = TypeVar("Settings", bound=BaseModel)
"""All settings of a process; each field is a table of the file, or a key above all tables."""


def read_settings(
    kind: type[Settings], file: Path | None, overrides: Mapping[str, Any]
) -> Settings:
    """
    The settings of a file (or none), with what the command line says instead.

    `overrides` are values by dotted key ("listener.port"); one that is None was not said. Raises
    `BadConfiguration`: it names the key and says what is expected.
    """
    said = parsed(file) if file else {}
    for key, value in overrides.items():
        table, _, name = key.rpartition(".")
        if value is not None:
            (said.setdefault(table, {}) if table else said)[name] = value
    try:
        # As JSON, tables may be dataclasses and strings enums, and everything else is strict.
        return kind.model_validate_json(json.dumps(said, default=str))
    except ValidationError as problems:
        where = f"{file}: " if file else ""
        wrong = "; ".join(explained(kind, each) for each in problems.errors())
        raise BadConfiguration(where + wrong) from None


def parsed(file: Path) -> dict[str, Any]:
    """A TOML file's tables."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise BadConfiguration(f"{file} cannot be read: {problem.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadConfiguration(f"{file} is no TOML: {problem}.") from None


def explained(kind: type[BaseModel], problem: Mapping[str, Any]) -> str:
    """The fault of one setting, in a sentence."""
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        known = known_keys(kind, problem["loc"][:-1])
        return f"there is no setting {key} (there are {', '.join(known)})"
    if problem["type"] == "missing":
        return f"{key} is missing"
    msg: str = problem["msg"]
    return f"{key} is {problem['input']!r}: {msg[:1].lower()}{msg[1:]}"


def known_keys(kind: type[BaseModel], table: tuple[str, ...]) -> list[str]:
    """The settings that a table has; of the whole file, without a table's name."""
    if not table:
        return sorted(kind.model_fields)
    annotation = kind.model_fields[table[0]].annotation
    (section,) = [each for each in (annotation, *get_args(annotation)) if is_dataclass(each)]
    return sorted(field.name for field in fields(section))
