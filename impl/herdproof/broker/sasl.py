"""
SASL, where the broker asks for it: who says the password of a user gets in, nobody else does.

Before that a connection may ask for ApiVersions and log in; anything else ends it, and so does a
log-in that fails. PLAIN sends the password as it is (so it wants TLS), SCRAM proves on both sides
that it is known; what is compared is compared in constant time.

Source: KIP-43, KIP-152; RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from kafka.protocol.api_key import ApiKey
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from herdproof.broker.codec import (
    KafkaError,
    RequestHead,
    Versions,
    framed,
    read_answer,
    read_request,
    write_answer,
)
from herdproof.broker.connection import KafkaConnection
from herdproof.errors import PeerError
from herdproof.shells.configuration import BadConfiguration, parsed

SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PLAIN: SaslMechanism = "PLAIN"
SASL_VERSIONS: Versions = {ApiKey.SaslHandshake: (1, 1), ApiKey.SaslAuthenticate: (0, 2)}
"""From 1 on a handshake is followed by SaslAuthenticate, rather than by bytes without a frame."""
ITERATIONS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSection:
    """Who gets in, and how."""

    users_file: str
    """A file in TOML: a line `name = "password"` for each user."""
    mechanisms: tuple[SaslMechanism, ...] = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")

    def __post_init__(self) -> None:
        if not self.mechanisms:
            raise BadConfiguration("sasl.mechanisms is empty: nobody could log in.")

    def users(self) -> dict[str, str]:
        """Passwords by user; raises `BadConfiguration`."""
        users = parsed(Path(self.users_file))
        if not users or not all(isinstance(word, str) and word for word in users.values()):
            raise BadConfiguration(
                f'sasl.users_file {self.users_file}: write a line name = "password" for each user.'
            )
        return users


class LoginFailed(PeerError):
    """Somebody is not who it says to be, or does not say it as it is to be said."""


class LoginExchange(Protocol):
    """A log-in by one mechanism."""

    user: str | None
    """Who has logged in, once that is so."""

    def answer(self, token: bytes) -> bytes:
        """The answer to a token of the client's; raises `LoginFailed`."""


@dataclass
class PlainExchange:
    """A log-in by PLAIN."""

    passwords: Mapping[str, str]
    user: str | None = None

    def answer(self, token: bytes) -> bytes:
        """Nothing, to who says the right password; raises `LoginFailed`."""
        try:
            acts_for, name, said = token.decode().split("\0")
        except ValueError:
            raise LoginFailed("PLAIN is said as \\0 user \\0 password") from None
        known = self.passwords.get(name, secrets.token_hex())
        if acts_for not in ("", name) or not hmac.compare_digest(known.encode(), said.encode()):
            raise LoginFailed("invalid username or password")
        self.user = name
        return b""


@dataclass
class ScramExchange:
    """A log-in by SCRAM: what the client says first, and its proof."""

    server: Any
    names: list[str]
    """Whom the server has looked up."""
    user: str | None = None
    _has_begun: bool = False

    def answer(self, token: bytes) -> bytes:
        """The challenge, or the server's own proof; raises `LoginFailed`."""
        from scramp import ScramException

        try:
            said = token.decode()
            if not self._has_begun:
                self._has_begun = True
                self.server.set_client_first(said)
                return str(self.server.get_server_first()).encode()
            self.server.set_client_final(said)
            proof = str(self.server.get_server_final()).encode()
        except (ScramException, LookupError, ValueError):
            raise LoginFailed("invalid username or password") from None
        self.user = self.names[-1]
        return proof


class SaslUsers:
    """The users, and log-ins of theirs."""

    def __init__(self, section: SaslSection) -> None:
        self.mechanisms = section.mechanisms
        self._passwords = section.users()
        self._known = {
            name: {
                user: _scram(name).make_auth_info(password, iteration_count=ITERATIONS)
                for user, password in self._passwords.items()
            }
            for name in self.mechanisms
            if name != PLAIN
        }

    def begin(self, mechanism: str) -> LoginExchange | None:
        """A log-in by this mechanism; None if it is not offered."""
        if mechanism not in self.mechanisms:
            return None
        if mechanism == PLAIN:
            return PlainExchange(self._passwords)
        names: list[str] = []

        def look_up(name: str) -> Any:
            """The secret that is known of a user; `KeyError` if none is."""
            names.append(name)
            return self._known[mechanism][name]

        return ScramExchange(_scram(mechanism).make_server(look_up), names)


def _scram(mechanism: str) -> Any:
    from scramp import ScramMechanism

    return ScramMechanism(mechanism)


@dataclass
class SaslGate:
    """Gate before a port's handlers: it answers what is about logging in, and lets in."""

    users: SaslUsers
    _begun: dict[KafkaConnection, LoginExchange] = field(default_factory=dict)

    def lets(self, connection: KafkaConnection, head: RequestHead, frame: bytes) -> bool:
        """True if a request is for the handlers; else it is answered, or its connection ends."""
        if head.api not in SASL_VERSIONS:
            exchange = self._begun.get(connection)
            if head.api == ApiKey.ApiVersions or (exchange is not None and exchange.user):
                return True
            connection.refuse("not logged in")
            return False
        oldest, newest = SASL_VERSIONS[head.api]
        if not oldest <= head.version <= newest:
            connection.refuse(f"unknown version {head.version} of request {head.api}")
            return False
        body = read_request(head, frame, connection.host).body
        if head.api == ApiKey.SaslHandshake:
            self._shake_hands(connection, head, body.mechanism)
        else:
            self._authenticate(connection, head, body.auth_bytes)
        return False

    def forget(self, connection: KafkaConnection) -> None:
        """A connection is over."""
        self._begun.pop(connection, None)

    def _shake_hands(self, connection: KafkaConnection, head: RequestHead, mechanism: str) -> None:
        """Begin a log-in; a second one, of who is logged in, is refused."""
        exchange = None
        error = KafkaError.ILLEGAL_SASL_STATE
        if connection not in self._begun:
            exchange = self.users.begin(mechanism)
            error = KafkaError.NONE if exchange else KafkaError.UNSUPPORTED_SASL_MECHANISM
        answer = SaslHandshakeResponse(
            version=head.version, error_code=error, mechanisms=list(self.users.mechanisms)
        )
        connection.reply(write_answer(head, answer))
        if exchange is None:
            connection.refuse("log-in failed")
        else:
            self._begun[connection] = exchange

    def _authenticate(self, connection: KafkaConnection, head: RequestHead, token: bytes) -> None:
        """Go on with a log-in."""
        exchange = self._begun.get(connection)
        said, error, why = b"", KafkaError.NONE, None
        try:
            if exchange is None or exchange.user:
                error, why = KafkaError.ILLEGAL_SASL_STATE, "a SaslHandshake comes before, once"
            else:
                said = exchange.answer(token)
        except LoginFailed as failed:
            error, why = KafkaError.SASL_AUTHENTICATION_FAILED, str(failed)
        answer = SaslAuthenticateResponse(
            version=head.version, error_code=error, error_message=why, auth_bytes=said,
            session_lifetime_ms=0,
        )  # fmt: skip
        connection.reply(write_answer(head, answer))
        if error:
            connection.refuse("log-in failed")


# ── In front of a Kafka, which is asked ─────────────────────────────────────────────────────

ROUNDS: Mapping[str, int] = {PLAIN: 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""Number of answers without an error that a log-in takes, by mechanism."""


@dataclass
class SaslWatch:
    """Lets in whom the Kafka behind has let in: log-ins go on to it, and are watched."""

    _left: dict[KafkaConnection, int] = field(default_factory=dict)
    """Number of answers that are missing, by connection that has begun to log in."""

    def lets(self, connection: KafkaConnection, head: RequestHead, _frame: bytes) -> bool:
        """True if a request is to be answered, or to go on; else its connection ends."""
        is_in = self._left.get(connection) == 0
        if is_in or head.api in SASL_VERSIONS or head.api == ApiKey.ApiVersions:
            return True
        connection.refuse("not logged in")
        return False

    def forget(self, connection: KafkaConnection) -> None:
        """A connection is over."""
        self._left.pop(connection, None)

    def answered(
        self, connection: KafkaConnection, head: RequestHead, asked: bytes, frame: bytes
    ) -> None:
        """Kafka has answered a part of a log-in: pass it on."""
        failed = read_answer(head, frame).error_code != KafkaError.NONE
        if failed:
            self.forget(connection)
        elif head.api == ApiKey.SaslHandshake:
            mechanism = read_request(head, asked, connection.host).body.mechanism
            if mechanism in ROUNDS:
                self._left[connection] = ROUNDS[mechanism]
        elif self._left.get(connection, 0) > 0:
            self._left[connection] -= 1
        connection.reply(framed(frame))


SHAKE_HANDS = RequestHead(ApiKey.SaslHandshake, 1, 0)
AUTHENTICATE = RequestHead(ApiKey.SaslAuthenticate, 1, 0)
LoginRequests: TypeAlias = Generator[tuple[RequestHead, dict[str, object]], Any, None]
"""Requests and their fields, one after the other; each is sent what was answered."""


def logging_in(mechanism: SaslMechanism, user: str, password: str) -> LoginRequests:
    """A client's log-in; raises `LoginFailed` with what is said against it."""
    shaken = yield SHAKE_HANDS, {"mechanism": mechanism}
    if shaken.error_code == KafkaError.UNSUPPORTED_SASL_MECHANISM:
        raise LoginFailed(f"it offers no {mechanism}, but {', '.join(shaken.mechanisms)}")
    if shaken.error_code:
        raise LoginFailed(f"it takes no log-in here (error {shaken.error_code})")
    tokens = tokens_of(mechanism, user, password)
    with suppress(StopIteration):
        token = next(tokens)
        while True:
            answer = yield AUTHENTICATE, {"auth_bytes": token}
            if answer.error_code:
                raise LoginFailed(f"it does not let in {user}: {answer.error_message}")
            token = tokens.send(answer.auth_bytes)


def tokens_of(mechanism: SaslMechanism, user: str, password: str) -> Generator[bytes, bytes, None]:
    """The tokens that a client says, in turn; is sent what is answered. Raises `LoginFailed`."""
    if mechanism == PLAIN:
        yield f"\0{user}\0{password}".encode()
        return
    from scramp import ScramClient, ScramException

    client = ScramClient([mechanism], user, password)
    try:
        challenge = yield client.get_client_first().encode()
        client.set_server_first(challenge.decode())
        proof = yield client.get_client_final().encode()
        client.set_server_final(proof.decode())
    except (ScramException, ValueError) as problem:
        raise LoginFailed(f"it does not prove to know {user}'s password: {problem}") from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslLogin:
    """As whom a broker asks the Kafka behind it, which asks for SASL."""

    user: str
    password_file: str
    mechanism: SaslMechanism = PLAIN

    def begin(self) -> LoginRequests:
        """The log-in, over a connection that has just been made; raises `BadConfiguration`."""
        try:
            password = Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as problem:
            raise BadConfiguration(
                f"kafka.password_file {self.password_file} cannot be read: {problem}."
            ) from problem
        return logging_in(self.mechanism, self.user, password)
