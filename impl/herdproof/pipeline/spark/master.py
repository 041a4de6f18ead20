"""Asks whether a Spark master can be reached, before Spark waits a minute for it."""

from __future__ import annotations

import os
import re
import socket

from herdproof.errors import WorldError

TIMEOUT_S = 5.0

_STANDALONE = re.compile(r"spark://(?P<hosts>[^/]+)")


class MasterUnreachable(WorldError):
    """No Spark master answers where the user said."""


def master_of(told: str) -> str | None:
    """
    The master as a session wants it; None where `spark-submit` has said it.

    Raises `MasterUnreachable` where a standalone master does not answer.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit, whose word counts
        return None
    match = _STANDALONE.fullmatch(told)
    if match is None:
        if not re.fullmatch(r"local(\[.+\])?|local-cluster\[.+\]|yarn|k8s://.+", told):
            raise MasterUnreachable(
                f"--spark {told}: say local[*], local[N], spark://HOST:PORT, yarn or k8s://…"
            )
        return told
    problems = [_problem(host) for host in match["hosts"].split(",")]
    if all(problems):  # of several masters, one is enough
        raise MasterUnreachable(f"no Spark master answers at {told} ({problems[0]})")
    return told


def _problem(address: str) -> str | None:
    """Why nobody can be reached at `host:port`."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return f"{address!r} is no HOST:PORT"
    try:
        socket.create_connection((host, int(port)), timeout=TIMEOUT_S).close()
    except OSError as problem:
        return problem.strerror or str(problem)
    return None
