"""Checks side by side come to what they come to one after another, and nobody dies unnoticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from herdproof.servers import eventually
from herdspec import UsageError
from herdspec.check.cache import Cache, Result
from herdspec.check.plans import QUICK, plan_of
from herdspec.check.side_by_side import Tell, processors, side_by_side
from herdspec.check.verdict import Finding, Mark
from herdspec.check.verify import Check, Plan, nobody, verify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux")


def found(name: str) -> Result:
    """What a check finds, under a name."""
    holds = Finding(subject="x", row=name, kind="always", mark=Mark.PROVED, bounds="any number")
    return Result((holds,), f"by {os.getpid()}")


def check(name: str, run: Callable[[Tell], Result] | None = None, effort: int = 1) -> Check:
    """A check that finds its own name, or does something else."""
    return Check(name, run or (lambda _: found(name)), lambda: (name,), effort=effort)


def test_as_many_come_to_the_same() -> None:
    """The election's specs, checked by two processes, have the findings that one process has."""
    plan = plan_of("election", QUICK)
    plan = replace(plan, checks=tuple(c for c in plan.checks if "prove" not in c.name))

    alone, together = verify(plan), verify(plan, processes=2)

    assert together.findings == alone.findings
    assert [d.check for d in together.done] == [d.check for d in alone.done]


def test_others_carry_it_out() -> None:
    """Two checks are in two processes, neither of them this one, each with its share."""

    def share(tell: Tell) -> Result:
        time.sleep(0.2)
        return replace(found("share"), measured=f"{os.getpid()} {processors()}")

    report = verify(Plan("toy", (check("a", share), check("b", share))), processes=2)
    said = [done.result.measured.split() for done in report.done]

    assert report.clock_seconds >= max(done.seconds for done in report.done) >= 0.2
    assert len({pid for pid, _ in said} | {str(os.getpid())}) == 3
    assert {n for _, n in said} == {str(max(1, processors() // 2))}


def test_what_lasts_longest_is_begun_first() -> None:
    """Checks are begun by their effort, and reported in the order of the plan."""

    def at(tell: Tell) -> Result:
        time.sleep(0.3)
        return replace(found("at"), measured=str(time.monotonic()))

    efforts = {"a": 1, "b": 2, "c": 3, "d": 4}
    plan = Plan("toy", tuple(check(name, at, n) for name, n in efforts.items()))
    done = verify(plan, processes=2).done
    ended = {d.check: float(d.result.measured) for d in done}

    assert [d.check for d in done] == ["a", "b", "c", "d"]
    assert max(ended["c"], ended["d"]) < min(ended["a"], ended["b"])


def test_what_is_told_arrives() -> None:
    """How far a check is, that another process carries out, is told here."""
    told: list[tuple[str, float | None]] = []

    def slowly(number: int, tell: Tell) -> int:
        tell(f"at {number}", 0.5)
        time.sleep(0.2)
        return number

    with side_by_side(slowly, [0, 1], 2) as result:
        assert [result(n, lambda words, part: told.append((words, part))) for n in (1, 0)] == [1, 0]

    assert ("at 1", 0.5) in told


def test_an_error_is_the_callers() -> None:
    """What a check raises is raised here as well, with the place where it came about."""

    def wrong(_: Tell) -> Result:
        raise UsageError("there is no such size")

    with pytest.raises(UsageError, match="no such size") as raised:
        verify(Plan("toy", (check("a"), check("b", wrong))), processes=2)

    assert "in wrong" in "".join(raised.value.__notes__)


def test_an_error_that_is_survived_is_unknown() -> None:
    """What may be missing makes its own check unknown, and leaves the others alone."""

    def wrong(_: Tell) -> Result:
        raise UsageError("there is no ZooKeeper")

    plan = Plan("toy", (check("a", wrong), check("b"), check("c")))
    report = verify(plan, survived=(UsageError,), processes=2)

    assert [f.mark for f in report.findings] == [Mark.UNKNOWN, Mark.PROVED, Mark.PROVED]
    assert report.findings[0].note == "there is no ZooKeeper"


def test_who_dies_is_missed() -> None:
    """A process that is killed, for want of memory say, is an error and no verdict."""

    def die(_: Tell) -> Result:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody survives that")

    with pytest.raises(UsageError, match=r"exit code -9\): perhaps there was not enough memory"):
        verify(Plan("toy", (check("a"), check("b", die))), processes=2)


def test_who_is_let_go_puts_away_what_it_has(tmp_path: Path) -> None:
    """When one check fails, the other is ended, and what it has opened is closed."""
    opened, closed = tmp_path / "opened", tmp_path / "closed"

    def lasts(_: Tell) -> Result:
        try:
            opened.touch()
            time.sleep(60)
        finally:
            closed.touch()
        return found("lasts")

    def wrong(_: Tell) -> Result:
        while not opened.exists():
            time.sleep(0.01)
        raise UsageError("no")

    with pytest.raises(UsageError):
        verify(Plan("toy", (check("a", wrong), check("b", lasts))), processes=2)

    assert closed.exists()


def test_what_others_find_is_kept(tmp_path: Path) -> None:
    """Verdicts of other processes are kept; what could not be, is said once."""
    plan = Plan("toy", tuple(check(name) for name in "abc"))
    verify(plan, cache=Cache(tmp_path / "kept"), processes=2)
    again = verify(plan, cache=Cache(tmp_path / "kept"), processes=2)
    (tmp_path / "file").touch()
    nowhere = Cache(tmp_path / "file")
    verify(plan, cache=nowhere, processes=2)

    assert all(done.kept for done in again.done)
    assert len(nowhere.notes) == 3


def test_one_thing_is_done_here() -> None:
    """A single check, or a single process, is no reason to make another."""
    with side_by_side(lambda *_: os.getpid(), [0], 2) as result:
        assert result(0, nobody) == os.getpid()
    with side_by_side(lambda *_: os.getpid(), [0, 1], 1) as result:
        assert result(1, nobody) == os.getpid()


ORPHANING = """
import os, signal, sys
from pathlib import Path
from herdspec.check.side_by_side import side_by_side

def lasts(number, tell):
    Path(sys.argv[1], f"{os.getpid()}.pid").touch()
    signal.pause()

with side_by_side(lasts, [0, 1], 2) as result:
    result(0, lambda words, part: None)
"""


def test_who_has_lost_its_parent_ends(tmp_path: Path) -> None:
    """A command that is killed outright leaves nobody behind who goes on and fills memory."""
    parent = subprocess.Popen([sys.executable, "-c", ORPHANING, str(tmp_path)])
    assert eventually(lambda: len([*tmp_path.glob("*.pid")]) == 2, 30), "they have begun"
    parent.kill()
    parent.wait()

    orphans = [Path("/proc", file.stem, "cmdline") for file in tmp_path.glob("*.pid")]
    assert eventually(lambda: not any(goes_on(each, tmp_path) for each in orphans), 30)


def goes_on(process: Path, folder: Path) -> bool:
    """Tells whether a process is there yet, and is one of those that were told of this folder."""
    with suppress(OSError):
        return str(folder) in process.read_text()
    return False
