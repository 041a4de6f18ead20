"""Coordinators that run beside a test: `herdproof coordinator` as a process, on loopback."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError

from integration.clients import eventually
from integration.commands import Command

SESSION_MS = 1_500
SETTINGS = f"""
[coordinator]
failover_grace_ms = 200
leadership_lease_ms = 1_500
offset_flush_ms = 20
max_channels = 6
[listener]
frame_timeout_ms = 1_000
max_frame_bytes = 100_000
[zookeeper]
session_timeout_ms = {SESSION_MS}
"""
"""Impatient ones; the last table may be gone on with."""


class Coordinator(Command):
    """
    A coordinator's process, with its files in `folder`; `settings` go on where ours end.

    Entering its context waits until it can be consulted.
    """

    def __init__(
        self, folder: Path, hosts: str, broker_id: int = 1, settings: str = "", port: int = 0
    ) -> None:
        file = folder / f"{broker_id}.toml"
        file.write_text(SETTINGS + settings)
        life = len(list(folder.glob(f"{broker_id}-*.log"))) + 1
        super().__init__(
            folder / f"{broker_id}-{life}.log",
            "coordinator", "--config", str(file), "--zookeeper", hosts,
            "--broker-id", str(broker_id), "--port", str(port), "--metrics-port", "0",
            "--log", "json",
        )  # fmt: skip

    @property
    def port(self) -> int:
        """Where it listens; it can be consulted once that is known."""
        return int(self.await_lines(1)[0].removeprefix("listening 127.0.0.1:"))

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            assert self.port
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, and do not wait."""
        self._process.send_signal(number)

    def logged(self, beginning: str) -> list[dict[str, Any]]:
        """The lines of its log whose event is so called, or whose message begins so."""
        lines = [json.loads(line) for line in self.complaints.splitlines() if line.endswith("}")]
        named = [line for line in lines if line.get("event") == beginning]
        return named or [line for line in lines if line["message"].startswith(beginning)]

    def await_logged(self, beginning: str, times: int = 1) -> list[dict[str, Any]]:
        """Wait until it has logged this so often."""
        eventually(lambda: len(self.logged(beginning)) >= times)
        return self.logged(beginning)

    def metrics(self) -> list[str]:
        """What Prometheus reads, line by line."""
        return self.page("/metrics")[1].splitlines()

    def page(self, path: str) -> tuple[int, str]:
        """The status and the text of a page beside the metrics."""
        [line] = self.logged("metrics on ")
        where = line["message"].split()[-1]
        try:
            with urllib.request.urlopen(f"http://{where}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()
