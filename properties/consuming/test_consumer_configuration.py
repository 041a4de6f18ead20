"""A consumer's arguments from a file: the same as in code, and one sentence for what is wrong."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from herdproof import Consumer
from herdproof.cli.options import kafka_settings
from herdproof.consuming.addresses import BadArgument
from herdproof.consuming.configuration import consumer_arguments
from herdproof.protocols.central_coordinator.client.joining import CoordinatedConsumer
from herdproof.shells.configuration import BadConfiguration
from herdproof.shells.tls import BadTls
from herdspec.language.errors import UsageError

WHOLE = """
group = "payments"
coordinators = ["127.0.0.1:9191", "127.0.0.1:9192"]
bootstrap_servers = "127.0.0.1:9092"
session_timeout_s = 8
ping_interval_s = 0.5
request_timeout_s = 2.5
backoff_s = 0.2
backoff_max_s = 1
auto_commit = false

[kafka]
"fetch.wait.max.ms" = 50
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the arguments are written."""
    return tmp_path / "consumer.toml"


def test_what_stands_in_the_file_is_what_the_consumer_is(file: Path) -> None:
    """Back-offs and time-outs too, which nothing else could set."""
    file.write_text(WHOLE)

    consumer = Consumer.from_file(file, consumer_id="me", backoff_max_s=2, group=None)

    assert (consumer.group, consumer.consumer_id) == ("payments", "me")
    assert consumer._kafka["fetch.wait.max.ms"] == 50
    candidate = consumer._candidate
    assert isinstance(candidate, CoordinatedConsumer)
    settings = candidate._settings
    assert (settings.request_timeout_ms, settings.backoff_ms) == (2_500, 200)
    assert (settings.backoff_max_ms, settings.session_timeout_ms) == (2_000, 8_000)
    assert settings.auto_commit is False


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("group = 3", "group is 3: it must be a string"),
        ("auto_commit = 1", "auto_commit is 1: it must be true or false"),
        ("session_timeout_s = true", "session_timeout_s is True: it must be an integer or a numb"),
        ("session_timeout_s = '9'", "session_timeout_s is '9': it must be an integer or a number"),
        ("kafka = 'x'", "kafka is 'x': it must be a table"),
        ("[tls]\nca = 'x'", "tls has no ca, but authority, certificate, key"),
        ("group = 'g'", "bootstrap_servers is missing"),
        (WHOLE.replace("backoff_s", "back_off_s"), "back_off_s is no argument of a group with a"),
        (WHOLE.replace("[kafka]", "[kafka]\n'group.id' = 'x'"), "which is the argument group"),
    ],
)
def test_what_is_wrong_in_it_is_named(file: Path, text: str, wrong: str) -> None:
    """Before anything is connected to."""
    file.write_text(text)

    with pytest.raises(BadArgument) as refused:
        Consumer.from_file(file)

    assert wrong in str(refused.value)


def test_a_file_that_is_none_is_named(file: Path) -> None:
    """One that is not there, and one that is no TOML."""
    with pytest.raises(BadConfiguration, match=r"consumer\.toml cannot be read"):
        Consumer.from_file(file)
    file.write_text("group = ")
    with pytest.raises(BadConfiguration, match=r"consumer\.toml is no TOML"):
        Consumer.from_file(file)


def test_tls_is_made_of_files(tmp_path: Path) -> None:
    """Its mistakes name the setting, and the file."""
    authority, own = trustme.CA(), trustme.CA().issue_cert("me")
    files = {name: str(tmp_path / name) for name in ("authority", "certificate", "key")}
    authority.cert_pem.write_to_path(files["authority"])
    own.cert_chain_pems[0].write_to_path(files["certificate"])
    own.private_key_pem.write_to_path(files["key"])

    made = consumer_arguments(None, {"tls": files})["tls"]

    assert isinstance(made, ssl.SSLContext)
    assert made.verify_mode is ssl.CERT_REQUIRED
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"certificate": files["certificate"]}, "go together"),
        ({"authority": str(tmp_path / "none")}, "tls.authority .*none cannot be read"),
        ({**files, "key": files["authority"]}, "cannot be used"),
    ]
    for tls, said in wrong:
        with pytest.raises(BadTls, match=said):
            consumer_arguments(None, {"tls": tls})


def test_settings_of_kafka_are_taken_apart() -> None:
    """An address, which the option once took, is told where it belongs."""
    assert kafka_settings(["a.b=c", "x=y=z"]) == {"a.b": "c", "x": "y=z"}
    with pytest.raises(UsageError, match=r"--kafka 127\.0\.0\.1:9092: .*--bootstrap-servers"):
        kafka_settings(["127.0.0.1:9092"])
