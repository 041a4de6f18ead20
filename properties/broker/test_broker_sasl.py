"""SASL by the broker itself: who says the right password gets in, and nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from herdproof.broker.sasl import SaslSection, SaslUsers
from herdproof.shells.configuration import BadConfiguration
from properties.broker.served import WireClient, client_of, in_a_loop, served

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
UNSUPPORTED_MECHANISM, ILLEGAL_STATE, FAILED = 33, 34, 58


def users(folder: Path, **more: Any) -> SaslUsers:
    """Two users."""
    file = folder / "users.toml"
    file.write_text('alice = "wonderland"\n"größer" = "kleiner"\n')
    return SaslUsers(SaslSection(users_file=str(file), **more))


async def shake(client: WireClient, mechanism: str) -> int:
    """Begin to log in; the error."""
    answer = await client.ask(SaslHandshakeRequest(version=1, mechanism=mechanism), 1)
    assert isinstance(answer.error_code, int)
    return answer.error_code


async def say(client: WireClient, token: bytes, version: int = 2) -> Any:
    """Say the next thing of a log-in."""
    return await client.ask(SaslAuthenticateRequest(version=version, auth_bytes=token), version)


async def gets_in(client: WireClient) -> bool:
    """Whether it is answered what others are not."""
    return len((await client.ask(MetadataRequest(version=1, topics=None), 1)).topics) == 1


@pytest.mark.parametrize("version", [0, 1, 2])
@in_a_loop
async def test_who_says_the_password_gets_in(tmp_path: Path, version: int) -> None:
    """By PLAIN, in every version; ApiVersions is answered before."""
    async with served(users=users(tmp_path)) as there:
        client = await client_of(there)
        told = await client.ask(ApiVersionsRequest(version=0), 0)
        assert {17: (1, 1), 36: (0, 2)}.items() <= {
            each.api_key: (each.min_version, each.max_version) for each in told.api_keys
        }.items()
        assert await shake(client, "PLAIN") == 0
        assert (await say(client, b"\0alice\0wonderland", version)).error_code == 0
        assert await gets_in(client)


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(("name", "password"), [("alice", "wonderland"), ("größer", "kleiner")])
@in_a_loop
async def test_who_proves_to_know_the_password_gets_in(
    tmp_path: Path, mechanism: str, name: str, password: str
) -> None:
    """By SCRAM, and the broker proves to know it, too."""
    from scramp import ScramClient

    async with served(users=users(tmp_path)) as there:
        client = await client_of(there)
        told = ScramClient([mechanism], name, password)
        assert await shake(client, mechanism) == 0
        challenge = await say(client, told.get_client_first().encode())
        told.set_server_first(challenge.auth_bytes.decode())
        proof = await say(client, told.get_client_final().encode())
        told.set_server_final(proof.auth_bytes.decode())
        assert await gets_in(client)


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("PLAIN", b"\0alice\0wrong"),
        ("PLAIN", b"\0nobody\0wonderland"),
        ("PLAIN", b"bob\0alice\0wonderland"),
        ("PLAIN", b"alice\0wonderland"),
        ("PLAIN", b"\xff\0\xff\0\xff"),
        ("PLAIN", b""),
        *[(name, token) for name in SCRAM for token in (b"", b"n,,n=nobody,r=x", b"\xff", b"n,,")],
    ],
)
@in_a_loop
async def test_whoever_fails_is_told_so_and_its_connection_ends(
    tmp_path: Path, mechanism: str, token: bytes
) -> None:
    """A wrong password, a stranger, somebody who acts for another, and what is no log-in."""
    async with served(users=users(tmp_path)) as there:
        client = await client_of(there)
        assert await shake(client, mechanism) == 0
        assert (await say(client, token)).error_code == FAILED
        assert await client.ends()


@in_a_loop
async def test_a_proof_that_is_wrong_fails(tmp_path: Path) -> None:
    """The challenge is the same for a wrong password; what is made of it is not."""
    from scramp import ScramClient

    async with served(users=users(tmp_path)) as there:
        client = await client_of(there)
        told = ScramClient(["SCRAM-SHA-256"], "alice", "wrong")
        assert await shake(client, "SCRAM-SHA-256") == 0
        challenge = await say(client, told.get_client_first().encode())
        told.set_server_first(challenge.auth_bytes.decode())
        assert (await say(client, told.get_client_final().encode())).error_code == FAILED
        assert await client.ends()


@in_a_loop
async def test_nothing_is_answered_before_the_log_in(tmp_path: Path) -> None:
    """Neither metadata, nor in the middle of a log-in, nor a proof without a handshake."""
    async with served(users=users(tmp_path)) as there:
        for begins in (False, True):
            client = await client_of(there)
            if begins:
                assert await shake(client, "SCRAM-SHA-256") == 0
            client.send(MetadataRequest(version=1, topics=None), 1)
            assert await client.ends()
        client = await client_of(there)
        assert (await say(client, b"\0alice\0wonderland")).error_code == ILLEGAL_STATE
        assert await client.ends()


@in_a_loop
async def test_a_log_in_happens_once_and_by_what_is_offered(tmp_path: Path) -> None:
    """Another mechanism is refused, and so is a second handshake."""
    async with served(users=users(tmp_path, mechanisms=("PLAIN",))) as there:
        client = await client_of(there)
        assert await shake(client, "SCRAM-SHA-256") == UNSUPPORTED_MECHANISM
        assert await client.ends()
        client = await client_of(there)
        assert await shake(client, "PLAIN") == 0
        assert (await say(client, b"\0alice\0wonderland")).error_code == 0
        assert await shake(client, "PLAIN") == ILLEGAL_STATE
        assert await client.ends()


@pytest.mark.parametrize("text", ["", "alice = 3\n", 'alice = ""\n', "alice\n"])
def test_users_that_cannot_be_are_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    """The file is named, and what to write into it."""
    file = tmp_path / "users.toml"
    file.write_text(text)

    with pytest.raises(BadConfiguration, match=r"users\.toml"):
        SaslUsers(SaslSection(users_file=str(file)))
