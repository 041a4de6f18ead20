"""
TLS and SASL of a client's own connections, by the settings that its fetchers have already.

    security_of({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
                 "sasl.username": "alice", "sasl.password": "…", "ssl.ca.location": "ca.pem"})

They are librdkafka's, in Kafka's own words: said once, they count for all connections to Kafka.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from herdproof.broker.sasl import LoginRequests, SaslMechanism, logging_in
from herdproof.consuming.addresses import BadArgument
from herdproof.shells.tls import BadTls, client_context

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS: Mapping[str, tuple[bool, bool]] = {
    "PLAINTEXT": (False, False), "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True), "SASL_SSL": (True, True),
}  # fmt: skip
"""Of each `security.protocol`, whether it speaks TLS, and whether it logs in."""
FILES = {
    "ssl.ca.location": "authority", "ssl.certificate.location": "certificate",
    "ssl.key.location": "key",
}  # fmt: skip
CHECKS = ("enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLogin:
    """A user that logs in to brokers."""

    mechanism: SaslMechanism
    user: str
    password: str = field(repr=False)

    def begin(self) -> LoginRequests:
        """The requests of a log-in over one connection."""
        return logging_in(self.mechanism, self.user, self.password)


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Security of connections to brokers: TLS and a log-in; None: without."""

    tls: ssl.SSLContext | None = None
    login: ClientLogin | None = None


def security_of(kafka: Mapping[str, Any], tls: ssl.SSLContext | None = None) -> Security:
    """The security that librdkafka's settings say, with this TLS context; or `BadArgument`."""
    said = str(kafka.get("security.protocol", "PLAINTEXT"))
    if said.upper() not in PROTOCOLS:
        raise BadArgument(
            f"kafka sets security.protocol to {said!r}: it must be one of {', '.join(PROTOCOLS)}"
        )
    speaks_tls, logs_in = PROTOCOLS[said.upper()]
    if speaks_tls and tls is None:
        tls = context_of(kafka)
    return Security(tls=tls, login=login_of(kafka) if logs_in else None)


def login_of(kafka: Mapping[str, Any]) -> ClientLogin:
    """Who logs in, and how; or `BadArgument`."""
    mechanism = kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "GSSAPI"))
    if mechanism not in MECHANISMS:
        raise BadArgument(
            f"kafka sets sasl.mechanism to {mechanism!r} (or not at all): it must be one of "
            f"{', '.join(MECHANISMS)} in the group protocol"
        )
    for name in ("sasl.username", "sasl.password"):
        if not kafka.get(name):
            raise BadArgument(f"kafka sets no {name}, without which nobody can log in: add it")
    return ClientLogin(
        mechanism=cast(SaslMechanism, mechanism), user=str(kafka["sasl.username"]),
        password=str(kafka["sasl.password"]),
    )  # fmt: skip


def context_of(kafka: Mapping[str, Any]) -> ssl.SSLContext:
    """TLS by the files that are named; or `BadArgument`."""
    for name in kafka:
        if name.startswith("ssl.") and name not in (*FILES, *CHECKS):
            raise BadArgument(
                f"kafka sets {name}, which the group's own connections cannot use: say the same by "
                f"the argument tls, an ssl.SSLContext"
            )
    try:
        files = {of: str(kafka[name]) for name, of in FILES.items() if name in kafka}
        made = client_context(**files)
    except BadTls as problem:
        raise BadArgument(f"of kafka's {', '.join(FILES)}: {problem}") from problem
    verifies, identifies = (str(kafka.get(name, "")).lower() for name in CHECKS)
    if verifies == "false" or identifies == "none":
        made.check_hostname = False
    if verifies == "false":
        made.verify_mode = ssl.CERT_NONE
    return made
