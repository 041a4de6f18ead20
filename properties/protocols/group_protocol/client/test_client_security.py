"""How a client's own connections are secured, by the settings that its fetchers have."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from herdproof import Consumer
from herdproof.broker.codec import KafkaError
from herdproof.broker.sasl import LoginFailed, SaslSection, SaslUsers, logging_in
from herdproof.consumer import BadArgument
from herdproof.protocols.group_protocol.client.shell.security import MECHANISMS, security_of

ALICE = {"sasl.username": "alice", "sasl.password": "wonderland"}


class ToldSo:
    """An answer with these fields."""

    def __init__(self, **fields: Any) -> None:
        self.error_code = 0
        vars(self).update(fields)


@pytest.fixture
def authority(tmp_path: Path) -> str:
    """A file that says who signs certificates."""
    file = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)
    return str(file)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_log_in_is_what_is_said_of_it(mechanism: str) -> None:
    """By either of librdkafka's names for the mechanism; no password is shown."""
    said = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": mechanism, **ALICE}

    security = security_of(said)

    assert security.tls is None
    assert security.login is not None
    assert (security.login.mechanism, security.login.user) == (mechanism, "alice")
    assert "wonderland" not in repr(security)


def test_tls_is_made_of_the_files_that_are_named(authority: str) -> None:
    """Names are checked, unless the settings say otherwise."""
    said: dict[str, Any] = {"security.protocol": "SSL", "ssl.ca.location": authority}
    unnamed = {**said, "ssl.endpoint.identification.algorithm": "none"}
    unchecked = {**said, "enable.ssl.certificate.verification": False}

    found = [security_of(each).tls for each in (said, unnamed, unchecked)]

    assert [(tls.check_hostname, tls.verify_mode) for tls in found if tls is not None] == [
        (True, ssl.CERT_REQUIRED), (False, ssl.CERT_REQUIRED), (False, ssl.CERT_NONE),
    ]  # fmt: skip


def test_a_context_of_ones_own_counts_instead() -> None:
    """Also where the settings have what no other connection could use."""
    own = ssl.create_default_context()

    assert security_of({"security.protocol": "SSL", "ssl.ca.pem": "…"}, own).tls is own
    assert security_of({}, own).tls is own


@pytest.mark.parametrize(("said", "why"), [
    ({"security.protocol": "TLS"}, "it must be one of PLAINTEXT, SSL"),
    ({"security.protocol": "SASL_SSL", **ALICE}, "sets sasl.mechanism to 'GSSAPI'"),
    ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"},
     "sets no sasl.password"),
    ({"security.protocol": "SSL", "ssl.ca.pem": "…"}, "sets ssl.ca.pem, which"),
    ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere"}, "/nowhere cannot be read"),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_a_sentence(said: dict[str, str], why: str) -> None:
    """At once, when the consumer is made."""
    with pytest.raises(BadArgument, match=why):
        Consumer("g", protocol="group_protocol", bootstrap_servers="127.0.0.1:1", kafka=said)


# ── The log-in itself ───────────────────────────────────────────────────────────────────────


def users(folder: Path) -> SaslUsers:
    """One user."""
    file = folder / "users.toml"
    file.write_text('alice = "wonderland"\n')
    return SaslUsers(SaslSection(users_file=str(file)))


def log_in(mechanism: Any, password: str, served: SaslUsers) -> None:
    """Log in at that broker; raises what is said against it."""
    exchange = served.begin(mechanism)
    assert exchange is not None
    requests = logging_in(mechanism, "alice", password)
    _, fields = next(requests)
    assert fields == {"mechanism": mechanism}
    told = ToldSo()
    while True:
        try:
            _, fields = requests.send(told)
        except StopIteration:
            return
        token = fields["auth_bytes"]
        assert isinstance(token, bytes)
        try:
            told = ToldSo(auth_bytes=exchange.answer(token))
        except LoginFailed as problem:
            told = ToldSo(error_code=58, error_message=str(problem))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_knows_the_password_gets_in(tmp_path: Path, mechanism: str) -> None:
    """And who does not is told what the broker says."""
    served = users(tmp_path)

    log_in(mechanism, "wonderland", served)

    with pytest.raises(LoginFailed, match="does not let in alice: invalid username or password"):
        log_in(mechanism, "wrong", served)


@pytest.mark.parametrize(("told", "why"), [
    (ToldSo(error_code=int(KafkaError.UNSUPPORTED_SASL_MECHANISM), mechanisms=["PLAIN"]),
     "it offers no SCRAM-SHA-256, but PLAIN"),
    (ToldSo(error_code=int(KafkaError.ILLEGAL_SASL_STATE), mechanisms=[]), "it takes no log-in"),
])  # fmt: skip
def test_a_broker_without_that_log_in_is_told_of(told: ToldSo, why: str) -> None:
    """It asks for none, or for another one."""
    requests = logging_in("SCRAM-SHA-256", "alice", "wonderland")
    next(requests)

    with pytest.raises(LoginFailed, match=why):
        requests.send(told)


def test_a_broker_that_does_not_know_the_password_either_is_not_believed(tmp_path: Path) -> None:
    """By SCRAM both sides prove it: an impostor's proof is refused."""
    exchange = users(tmp_path).begin("SCRAM-SHA-256")
    assert exchange is not None
    requests = logging_in("SCRAM-SHA-256", "alice", "wonderland")
    next(requests)
    _, first = requests.send(ToldSo())
    assert isinstance(first["auth_bytes"], bytes)
    requests.send(ToldSo(auth_bytes=exchange.answer(first["auth_bytes"])))

    with pytest.raises(LoginFailed, match="does not prove to know alice's password"):
        requests.send(ToldSo(auth_bytes=b"v=d3Jvbmc="))
