"""
A protocol of another distribution, installed from a directory, goes through all commands.

Its files are those that docs/conformance.md shows: spec, code, one entry. Nothing of ours names it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from integration.commands import COMMAND
from properties.rules.test_tutorial import blocks

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
HOLDS, FAILS = 0, 1

Ran: TypeAlias = "subprocess.CompletedProcess[str]"
Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs Python, or a command, where the toy is installed beside us."""
    folder = tmp_path_factory.mktemp("baton")
    source, site = folder / "source", folder / "site"
    for block in blocks(PAGE):
        if block.file == "pyproject.toml" or block.file.startswith("baton/"):
            file = source / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
    local = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(site), str(source)]
    subprocess.run([*pip, *local], check=True)
    paths = [str(site), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]

    def run(*command: object, code: str = "") -> Ran:
        words = ["-c", code] if code else COMMAND[1:]
        return subprocess.run(
            [sys.executable, *words, *map(str, command)], cwd=folder, text=True,
            capture_output=True, check=False, timeout=100,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "120"},
        )  # fmt: skip

    return run


TRACES = """
import sys
from pathlib import Path
from herdproof.pipeline.campaign.runs import Asked
from herdproof.protocols.implementation import simulators
simulated = simulators()["baton"]
mix = next(iter(simulated.mixes))
for seed, name, flaw in ((1, "good", ""), (2, "wrong", "reads_on")):
    ran = simulated.run(Asked("baton", seed, seed, mix, flaw))
    Path(f"{name}.ndjson").write_text("".join(f"{text}\\n" for text in ran.texts))
"""


def test_it_is_verified_like_ours(run: Run) -> None:
    """Explored, proved, its flaw as declared; its code walked, and taken along edges, stories."""
    done = run("verify", "baton", "--quick", "--no-cache")

    assert done.returncode == HOLDS, done.stdout + done.stderr
    for row in (
        "only the holder reads                      ● one or more readers",
        "the code takes random walks as specified   ✔",
        "the code takes every step as specified     ✔ 2 readers, 24 of 24 edges",
        "the code follows the spec's stories        ✔",
        "reads_on        only the holder reads   4       give_back     yes",
    ):
        assert row in done.stdout


def test_its_stories_are_replayed_on_its_code(run: Run) -> None:
    """That of the flaw on the code that has it, by the name alone."""
    saved = run("explore", "baton/reads_on", "--save-stories", "stories")
    replayed = run("replay", "stories/baton-reads_on.only_the_holder_reads.story.json")

    assert saved.returncode == HOLDS, saved.stdout + saved.stderr
    assert replayed.returncode == HOLDS, replayed.stdout + replayed.stderr
    assert "the code follows, 4 steps" in replayed.stdout


def test_its_traces_are_replayed_and_audited(run: Run) -> None:
    """What it did right conforms; where it reads on, it differs, at that line."""
    assert run(code=TRACES).stderr == ""
    good, wrong = run("conform", "good.ndjson"), run("conform", "wrong.ndjson")
    audit = run("audit", "good.ndjson", "wrong.ndjson", "--out", "audit")

    assert (good.returncode, wrong.returncode) == (HOLDS, FAILS), good.stdout + good.stderr
    assert "reads[" in wrong.stdout
    assert audit.returncode == FAILS, audit.stdout + audit.stderr


def test_campaigns_run_its_code(run: Run) -> None:
    """Eight seeds are kept; with the flaw, some break a promise, and a seed tells its story."""
    kept = run("campaign", "baton", "--runs", 8, "--out", "kept")
    told = run("campaign", "baton", "--seed", 3, "--flaw", "reads_on")

    assert kept.returncode == HOLDS, kept.stdout + kept.stderr
    assert told.returncode == FAILS, told.stdout + told.stderr
    assert "gives the baton back" in told.stdout


def test_without_it_nobody_knows_it() -> None:
    """The very same command says which specs there are."""
    done = subprocess.run(
        [*COMMAND, "verify", "baton"], text=True,
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.returncode == 2
    assert "there is no spec 'baton'; the known ones: election, election-drafted" in done.stderr
