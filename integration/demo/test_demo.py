"""`herdproof demo`, short: the page, what it shows, the audit's page, and nothing left running."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from herdproof.cli.run.demo.plan import LEAST_S
from integration.commands import Command

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

PATIENCE_S = 100.0
"""A busy machine starts Kafka slowly."""
TEMPORARY = re.compile(rb"/[^\0]*/herdproof-(?:zookeeper|kafka)-[^/\0]*")


@dataclass(frozen=True)
class Running:
    """A process that a command has started, by id and start, with the directories in its words."""

    pid: int
    started: str
    folders: frozenset[Path]

    def is_left(self) -> bool:
        """Whether it runs still, or a temporary directory of its is there."""
        return _started(self.pid) == self.started or any(map(Path.exists, self.folders))


def below(pid: int) -> Iterator[Running]:
    """All processes that a process has started, and those have."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            child = int(stat.parent.name)
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                words = (stat.parent / "cmdline").read_bytes()
                folders = frozenset(Path(found.decode()) for found in TEMPORARY.findall(words))
                yield Running(child, _started(child), folders)
                yield from below(child)


def _started(pid: int) -> str:
    """When it started, as Linux counts; "" if there is no such process, or it has ended."""
    with suppress(OSError):
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state == "Z" else fields[18]
    return ""


def shown(url: str) -> dict[str, Any]:
    """What the page is told now."""
    with urllib.request.urlopen(f"{url}snapshot", timeout=20) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


@pytest.mark.long
def test_a_short_demonstration(tmp_path: Path, report: Callable[[str], None]) -> None:
    """The leader is killed and comes back; the page, the files and the exit code tell of it."""
    out = tmp_path / "out"
    options = ("--seconds", str(LEAST_S), "--consumers", "2", "--partitions", "4")
    with Command(tmp_path / "complaints", "demo", *options, "--out", str(out)) as demo:
        url = demo.await_line("the page: ").removeprefix("the page: ")
        starting = shown(url)
        demo.await_line("is killed (kill -9)", PATIENCE_S)
        children = list(below(demo.pid))
        live = shown(url)
        code = demo.wait(PATIENCE_S)

    assert starting["chapter"] == "starting"
    assert live["chapter"] == "running"
    assert {p["reader"] for p in live["partitions"]} <= {"1", "2", None}
    assert "killed" in {c["state"] for c in live["coordinators"]}
    kept = json.loads((out / "demo.json").read_text())
    assert code == kept["ending"]["code"] == 0, f"{demo.lines}\n{demo.complaints}"
    assert kept["counts"]["two"] == kept["counts"]["lost"] == 0
    assert kept["counts"]["read"] >= kept["counts"]["sent"] > 4 * LEAST_S
    assert [act["do"] for act in kept["acts"]] == ["killed", "started"]
    assert kept["acts"][0]["silence"]["lasted_s"] > 1
    assert all(p["stretches"] for p in kept["partitions"])
    assert "No violation was found" in (out / "report.html").read_text()
    assert f"the audit's page: {out}/report.html" in demo.lines
    assert len(children) > 8
    assert not [child for child in children if child.is_left()]
    with pytest.raises(OSError, match="refused"):
        shown(url)
    report(f"a demonstration: {demo.lines[-1]}")


def test_ctrl_c_leaves_nothing_but_what_was_traced(tmp_path: Path) -> None:
    """While Kafka starts as at any time: no process, no port and no directory of theirs."""
    out = tmp_path / "out"
    with Command(tmp_path / "complaints", "demo", "--out", str(out)) as demo:
        url = demo.await_line("the page: ").removeprefix("the page: ")
        demo.await_line("Kafka and the coordinators start", PATIENCE_S)
        children = list(below(demo.pid))
        code = demo.end(signal.SIGINT)

    assert code == 130
    assert demo.complaints == f"herdproof: all is ended; what was traced is in {out}\n"
    assert children
    assert any(child.folders for child in children)
    assert not [child for child in children if child.is_left()]
    with pytest.raises(OSError, match="refused"):
        shown(url)
