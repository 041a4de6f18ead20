"""A coordinator's settings, logs, metrics and TLS files: what is wrong is named."""

from __future__ import annotations

import json
import logging
import re
import ssl
import urllib.request
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import trustme

from herdproof.protocols.central_coordinator.events import Report
from herdproof.protocols.central_coordinator.reports import LEVELS, What
from herdproof.protocols.central_coordinator.server.configuration import (
    Configuration,
    check_lease,
    read,
)
from herdproof.protocols.central_coordinator.server.metrics import Metrics
from herdproof.protocols.central_coordinator.settings import BadSettings, Settings
from herdproof.protocols.central_coordinator.wire.messages import Consult, Frame
from herdproof.shells.configuration import (
    BadConfiguration,
    Listener,
    LogSection,
    ZooKeeperSection,
)
from herdproof.shells.configuration import MetricsSection as MetricsSettings
from herdproof.shells.logs import (
    JsonLines,
    LogForm,
    TextLines,
    fields_of,
    log_to_stderr,
)
from herdproof.shells.logs import fields as logged
from herdproof.shells.metrics import MetricsPortTaken, MetricsServer
from herdproof.shells.tls import BadTls, Tls, server_context
from herdproof.zookeeper.client import Digest
from herdproof.zookeeper.operations import Get, Refusal, Why

PAGE = (Path(__file__).parents[4] / "docs" / "coordinator.md").read_text(encoding="utf-8")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a file of settings may be written."""
    return tmp_path / "coordinator.toml"


# ── Settings ────────────────────────────────────────────────────────────────────────────────


def test_what_is_said_is_taken_and_the_command_line_wins(file: Path) -> None:
    """A file's settings are taken, the command line's instead; what neither says is the default."""
    file.write_text(
        'broker_id = 3\n[listener]\nport = 1\nhost = "127.0.0.2"\n[coordinator]\ndrift = 0\n'
        '[log]\nform = "json"\n'
    )

    settings = read(file, {"listener.port": 7, "zookeeper.hosts": "z:1", "broker_id": None})

    assert settings == Configuration(
        broker_id=3, listener=Listener(host="127.0.0.2", port=7),
        zookeeper=ZooKeeperSection(hosts="z:1"), coordinator=Settings(drift=0.0),
        log=LogSection(form=LogForm.JSON),
    )  # fmt: skip
    assert read(None, {}) == Configuration()


WRONG = {
    "brokerid = 1": r"no setting brokerid \(there are broker_id, coordinator",
    "[listener]\nprot = 1": r"no setting listener\.prot \(there are .*port",
    "[coordinator]\nmax_group = 1": r"no setting coordinator\.max_group \(there are .*max_groups",
    "[tls]\ncert = 'x'": r"tls\.key is missing; .*no setting tls\.cert \(there are certificate,",
    '[listener]\nport = "1"': r"listener\.port is '1': .*integer",
    "[listener]\nport = true": r"listener\.port is True: .*integer",
    "[listener]\nport = 1.5": r"listener\.port is 1\.5",
    "listener = 3": r"listener is 3",
    "[log]\nform = 'xml'": r"log\.form is 'xml': .*text.*json",
    "[log]\nlevel = 'LOUD'": r"log\.level is 'LOUD': .*'DEBUG', 'INFO'",
    "port = ": r"is no TOML",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_setting_is_named(file: Path, text: str) -> None:
    """An unknown key, a value of another type, or no TOML: the error says which, and where."""
    file.write_text(text)

    with pytest.raises(BadConfiguration, match=re.compile(WRONG[text], re.DOTALL)) as told:
        read(file, {})

    assert str(file) in str(told.value)


SENSELESS: list[tuple[dict[str, Any], str]] = [
    ({"listener.port": -1}, r"listener\.port is -1"),
    ({"listener.port": 65_536}, "65535"),
    ({"metrics.port": 65_536}, "65535"),
    ({"listener.max_frame_bytes": 0}, "at least 1"),
    ({"listener.host": "0.0.0.0"}, "advertised_host"),
    ({"zookeeper.session_timeout_ms": 0}, "at least 100"),
    ({"zookeeper.user": "u"}, "go together"),
]


@pytest.mark.parametrize(("said", "why"), SENSELESS)
def test_a_senseless_setting_is_refused(said: dict[str, Any], why: str) -> None:
    """What no coordinator could run with is refused at the start, with the reason."""
    with pytest.raises(BadConfiguration, match=why):
        read(None, said)


def test_a_lease_that_outlives_the_session_is_refused() -> None:
    """Whoever leads longer than its session may not lead: the error says what to set to what."""
    lasting = read(None, {"coordinator.leadership_lease_ms": 6_001})

    check_lease(lasting, 6_001)
    with pytest.raises(BadConfiguration) as told:
        check_lease(lasting, 6_000)

    said = str(told.value)
    assert "coordinator.leadership_lease_ms is 6001" in said
    assert "lasts only 6000 ms (zookeeper.session_timeout_ms is 6000)" in said
    assert "to at most 6000" in said
    assert "maxSessionTimeout" in said


def test_the_defaults_go_together() -> None:
    """The default lease fits into the default session, with room for the pause of a third of it."""
    defaults = Configuration()
    check_lease(defaults, defaults.zookeeper.session_timeout_ms * 2 // 3)


def test_the_core_s_settings_are_checked_too() -> None:
    """What the core refuses is refused here, in the core's words."""
    with pytest.raises(BadSettings, match="max_groups"):
        read(None, {"coordinator.max_groups": 0})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing file of settings is an error, not a set of defaults."""
    with pytest.raises(BadConfiguration, match=r"nowhere\.toml cannot be read"):
        read(tmp_path / "nowhere.toml", {})


def test_the_password_comes_from_its_file(tmp_path: Path) -> None:
    """The user's password is its file's content, without the line's end; it is never shown."""
    secret = tmp_path / "secret"
    secret.write_text("pass word\n")

    digest = ZooKeeperSection(user="u", password_file=str(secret)).digest()

    assert digest == Digest("u", "pass word")
    assert "pass word" not in repr(digest)
    assert ZooKeeperSection().digest() is None
    with pytest.raises(BadConfiguration, match=r"password_file .*missing cannot be read"):
        ZooKeeperSection(user="u", password_file=str(tmp_path / "missing")).digest()


@pytest.mark.parametrize(
    "table", [Listener, Tls, ZooKeeperSection, MetricsSettings, LogSection, Settings]
)
def test_the_page_names_every_setting(table: type) -> None:
    """docs/coordinator.md tells of each setting."""
    assert [f.name for f in fields(table) if f"`{f.name}`" not in PAGE] == []


def test_the_page_has_the_core_s_defaults() -> None:
    """The defaults on the page are those that the core has, and the page names no other."""
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", PAGE, re.MULTILINE)

    assert {name: float(default) for name, default in rows} == {
        f.name: f.default for f in fields(Settings)
    }


# ── Logs ────────────────────────────────────────────────────────────────────────────────────


def record(message: str, **values: Any) -> logging.LogRecord:
    """A record with fields."""
    made = logging.makeLogRecord({"msg": message, "levelno": 20, "levelname": "INFO", "name": "n"})
    made.__dict__.update(logged(**values) if values else {})
    return made


def test_a_line_of_json_has_the_fields_as_keys() -> None:
    """Each record is one object on one line; its own keys are not overwritten by fields."""
    line = JsonLines().format(record("two\nlines", group="g", members=3, level="?"))

    said = json.loads(line)
    assert "\n" not in line
    assert (said["message"], said["level"], said["logger"]) == ("two\nlines", "info", "n")
    assert (said["group"], said["members"]) == ("g", 3)
    assert said["time"].endswith("+00:00")


def test_a_traceback_is_part_of_the_object() -> None:
    """What went wrong is a field of the line, not lines behind it."""
    try:
        raise ValueError("deep")
    except ValueError as problem:
        made = record("failed")
        made.exc_info = (ValueError, problem, problem.__traceback__)

    said = json.loads(JsonLines().format(made))

    assert "ValueError: deep" in said["traceback"]
    assert TextLines().format(made).count("ValueError: deep") == 1


def test_a_line_of_text_ends_with_the_fields() -> None:
    """People read the message first."""
    assert TextLines().format(record("joined", group="g")).endswith(" INFO joined group=g")
    assert fields_of(record("joined")) == {}


def test_the_process_logs_in_one_form(capsys: pytest.CaptureFixture[str]) -> None:
    """All loggers of the process write to stderr, once, in the form that was asked for."""
    log_to_stderr(LogForm.TEXT, "INFO")
    log_to_stderr(LogForm.JSON, "WARNING")

    logging.getLogger("a.b").warning("seen", extra=logged(n=1))
    logging.getLogger("a.b").info("not seen")

    [line] = capsys.readouterr().err.splitlines()
    assert json.loads(line)["n"] == 1


def test_what_went_wrong_is_logged_as_such() -> None:
    """Of what the core reports, what an operator has to know of is at least a warning."""
    grave = {What.REBALANCE_FAILED, What.REBALANCE_EXHAUSTED, What.ZOOKEEPER_TROUBLE}

    assert all(LEVELS[what] >= logging.WARNING for what in grave)
    assert LEVELS[What.REBALANCE_EXHAUSTED] == logging.ERROR


# ── Metrics ─────────────────────────────────────────────────────────────────────────────────


def test_the_metrics_are_served() -> None:
    """What was counted is what Prometheus reads; two registries do not disturb each other."""
    metrics, other = Metrics(), Metrics()
    metrics.received(Frame(Consult()))
    metrics.zookeeper.asked(Get("/x"), Refusal(Why.CONNECTION_LOSS), 0.2)
    metrics.reported(Report(What.REBALANCE_DONE, "g", (("ms", 2_500), ("whole_ms", 4_000))))
    metrics.cut("slow reader")

    with (
        MetricsServer(metrics.registry, "127.0.0.1", 0) as server,
        MetricsServer(other.registry, "127.0.0.1", 0),
    ):
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        with pytest.raises(MetricsPortTaken, match=f"127.0.0.1:{server.port}.*--metrics-port"):
            MetricsServer(other.registry, "127.0.0.1", server.port)

    assert 'herdproof_frames_received_total{message="Consult"} 1.0' in lines
    assert 'herdproof_zookeeper_refusals_total{why="connection loss"} 1.0' in lines
    assert 'herdproof_zookeeper_seconds_sum{operation="Get"} 0.2' in lines
    assert "herdproof_rebalance_seconds_sum 2.5" in lines
    assert "herdproof_rebalance_whole_seconds_sum 4.0" in lines
    assert 'herdproof_connections_cut_total{reason="slow reader"} 1.0' in lines
    assert other.registry.get_sample_value("herdproof_rebalance_seconds_sum") == 0


def test_the_page_names_every_metric() -> None:
    """docs/coordinator.md tells of each metric, and of none that there is not."""
    metrics = {metric.name for metric in Metrics().registry.collect()}

    assert set(re.findall(r"`(herdproof_\w+?)(?:_total\b)?[`{]", PAGE)) == metrics


# ── TLS ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def pems(tmp_path: Path) -> dict[str, str]:
    """The files of an authority and of a server that it vouches for."""
    authority = trustme.CA()
    server = authority.issue_cert("localhost")
    files = {name: str(tmp_path / f"{name}.pem") for name in ("certificate", "key", "authority")}
    server.cert_chain_pems[0].write_to_path(files["certificate"])
    server.private_key_pem.write_to_path(files["key"])
    authority.cert_pem.write_to_path(files["authority"])
    return files


def test_tls_asks_for_what_the_settings_say(pems: dict[str, str]) -> None:
    """Without an authority nobody needs a certificate, with one everybody does; never below 1.2."""
    plain = Tls(certificate=pems["certificate"], key=pems["key"])
    both = Tls(certificate=pems["certificate"], key=pems["key"], client_authority=pems["authority"])

    assert server_context(plain).verify_mode is ssl.CERT_NONE
    assert server_context(both).verify_mode is ssl.CERT_REQUIRED
    assert server_context(plain).minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("wrong", "by", "why"),
    [
        ("certificate", "nowhere", r"tls\.certificate .*nowhere cannot be read"),
        ("key", "nowhere", r"tls\.key .*nowhere cannot be read"),
        ("authority", "nowhere", r"tls\.client_authority .*nowhere cannot be read"),
        ("key", "authority", r"tls\.certificate .* and tls\.key .* are no pair"),
        ("authority", "key", r"tls\.client_authority .* holds no PEM certificate"),
    ],
)
def test_a_wrong_file_is_named(
    pems: dict[str, str], tmp_path: Path, wrong: str, by: str, why: str
) -> None:
    """A file that is missing or of another kind is named, with its setting."""
    files = {**pems, wrong: pems.get(by, str(tmp_path / "nowhere"))}
    tls = Tls(
        certificate=files["certificate"], key=files["key"], client_authority=files["authority"]
    )

    with pytest.raises(BadTls, match=why):
        server_context(tls)
