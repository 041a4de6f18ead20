"""
A consumer's arguments from a TOML file, whose keys are their names.

    group = "payments"
    coordinators = ["127.0.0.1:9191", "127.0.0.1:9192"]
    bootstrap_servers = "127.0.0.1:9092"
    session_timeout_s = 10
    backoff_max_s = 5

    [tls]
    authority = "ca.pem"

    [kafka]
    "security.protocol" = "SSL"

`tls` is made of files: `authority` signs the servers' certificates, `certificate` and `key` are
this consumer's own. Which arguments there are, the consumer and its protocol say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from herdproof.consuming.addresses import BadArgument
from herdproof.shells.configuration import parsed
from herdproof.shells.tls import client_context

TLS_FILES = ("authority", "certificate", "key")


def consumer_arguments(file: Path | None, said: Mapping[str, Any]) -> dict[str, Any]:
    """
    The arguments of a file (or none), with those instead that are `said` (None: not said).

    Raises `BadConfiguration`, `BadArgument` and `BadTls`; they name the file, or the key.
    """
    found = {} if file is None else parsed(file)
    for name, value in found.items():
        wanted = kind_of(name)
        is_right = isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))
        if not is_right:
            kinds = " or ".join(_CALLED[kind] for kind in wanted)
            raise BadArgument(f"{file}: {name} is {value!r}: it must be {kinds}")
    instead = {name: value for name, value in said.items() if value is not None}
    merged = {**found, **instead}
    merged["kafka"] = {**found.get("kafka", {}), **instead.get("kafka", {})}
    if isinstance(tls := merged.get("tls"), Mapping):
        if unknown := [name for name in tls if name not in TLS_FILES]:
            raise BadArgument(f"tls has no {unknown[0]}, but {', '.join(TLS_FILES)}")
        merged["tls"] = client_context(**tls)
    return merged


_CALLED = {
    bool: "true or false", int: "an integer", float: "a number", str: "a string",
    list: "a list of strings", dict: "a table",
}  # fmt: skip


def kind_of(name: str) -> tuple[type, ...]:
    """The types that an argument's value may have in a file, by the argument's name."""
    if name in ("kafka", "tls"):
        return (dict,)
    if name in ("auto_commit", "gives_up", "resumes"):
        return (bool,)
    if name.endswith("_s"):
        return (int, float)
    if name.startswith("max_") or name.endswith("_retries"):
        return (int,)
    return (str, list) if name.endswith(("s", "zookeeper")) else (str,)
