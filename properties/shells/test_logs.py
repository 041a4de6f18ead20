"""A service's log among strangers: nobody forges a line, and nobody floods it."""

from __future__ import annotations

import io
import logging
import time

import pytest

from herdproof.shells.logs import FEW, MANY, WINDOW_S, FewOfEach, JsonLines, TextLines, fields


def record(message: str, **values: str) -> logging.LogRecord:
    """A record with fields."""
    made = logging.makeLogRecord({"msg": message, "levelno": 20, "levelname": "INFO", "name": "n"})
    made.__dict__.update(fields(**values))
    return made


FORGED = "evil\n2026-11-24 03:00:00,000 ERROR all is lost\r\x1b[2J\x85\u2028\u202e"


@pytest.mark.parametrize("form", [TextLines(), JsonLines()], ids=["text", "json"])
def test_nobody_s_name_forges_a_line(form: logging.Formatter) -> None:
    """What ends a line or moves a cursor is written escaped, wherever it comes from."""
    line = form.format(record(f"refused {FORGED}", group=FORGED))

    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert line.count("all is lost") == 2


def test_a_field_of_several_words_is_one_field() -> None:
    """A name cannot be taken for further fields of a line."""
    line = TextLines().format(record("joined", group="a level=ERROR", consumer='"', topic=""))

    assert line.endswith(r'joined group="a level=ERROR" consumer="\"" topic=""')


def test_each_line_tells_its_own_time() -> None:
    """Lines of one second differ by their milliseconds, and the next second is another one."""
    form, made = TextLines(), record("joined")
    times = []
    for made.created, made.msecs in ((1_000.007, 7.9), (1_000.25, 250.0), (1_001.25, 250.0)):
        times.append(form.format(made).partition(" INFO")[0])

    assert times == [
        f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(second))},{ms}"
        for second, ms in ((1_000, "007"), (1_000, "250"), (1_001, "250"))
    ]


class Written:
    """A log that writes few of each, and the time, which is the test's."""

    def __init__(self) -> None:
        self.now, self.stream = 100.0, io.StringIO()
        self.handler = FewOfEach(self.stream, lambda: self.now)

    def log(self, level: int, message: str, times: int = 1) -> None:
        """Log the same so often."""
        for _ in range(times):
            self.handler.handle(logging.LogRecord("n", level, "", 0, message, (), None))

    def lines(self) -> list[str]:
        """What was written so far."""
        return self.stream.getvalue().splitlines()


def test_a_warning_that_comes_again_and_again_is_counted() -> None:
    """Only so many are written at a time, and then how many more there were; others are not."""
    written = Written()
    written.log(logging.WARNING, "cut", FEW + 1_234)
    written.log(logging.WARNING, "other")
    assert written.lines() == ["cut"] * FEW + ["other"]

    written.now += WINDOW_S
    written.log(logging.WARNING, "cut")
    assert written.lines()[FEW + 1 :] == [
        "1,234 more lines like this one were left out: cut", "cut",
    ]  # fmt: skip

    written.log(logging.WARNING, "cut", FEW)
    written.handler.close()
    assert written.lines()[-1] == "1 more lines like this one were left out: cut"


def test_a_flood_of_one_event_hides_no_other() -> None:
    """Events are logged by one and the same call; each is counted by itself."""
    written = Written()
    for event in ["refused"] * (FEW + 1) + ["stepped_down"]:
        record = logging.LogRecord("n", logging.WARNING, "", 0, "%s", (event,), None)
        record.fields = {"event": event}
        written.handler.handle(record)

    assert written.lines() == ["refused"] * FEW + ["stepped_down"]


def test_what_merely_happens_is_written_more_often() -> None:
    """A failover of a thousand members is no flood; and who debugs wants all."""
    written = Written()
    written.log(logging.INFO, "joined", MANY + 1)
    written.log(logging.DEBUG, "pinged", 2 * MANY)

    assert written.lines().count("joined") == MANY
    assert written.lines().count("pinged") == 2 * MANY
