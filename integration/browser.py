"""
A real browser without a window, led over a pipe by its DevTools protocol.

`chromium` is what Debian's package of that name brings; other systems call it otherwise. The
protocol is needed, and not only `--dump-dom`: it sets the width of a phone, which a window cannot
have, and it tells every request and every message of the console.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions",
    "--disable-sync", "--hide-scrollbars", "--mute-audio", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE_S = 60.0
PHONE, DESKTOP = 360, 1_280


def find_browser() -> str | None:
    """The browser's command, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a browser; `events` are what it has told since the page was opened."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._read = b""
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something, and wait for the answer."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while (told := self._next()).get("id") != self._number:
            self.events.append(told)
        if "error" in told:
            raise RuntimeError(f"{method}: {told['error']}")
        result: dict[str, Any] = told["result"]
        return result

    def _next(self) -> dict[str, Any]:
        deadline = monotonic() + PATIENCE_S
        while b"\0" not in self._read:
            ready, _, _ = select([self._back], [], [], max(0.0, deadline - monotonic()))
            read = os.read(self._back, 1 << 20) if ready else b""
            if not read:
                raise RuntimeError("the browser has ended, or says nothing")
            self._read += read
        told, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(told)
        return message

    def open(self, page: Path, width: int, *, dark: bool = False) -> None:
        """Show a file at this width."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1,
            mobile=width <= PHONE,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.navigate(page.absolute().as_uri())

    def navigate(self, url: str) -> None:
        """Go to an address, and wait until what is there has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        self._await_loaded()

    def follow(self, link: str) -> None:
        """
        Click on what this selector finds, and wait until the page that it leads to has loaded.

        What is asked while the one page gives way to the other would be asked of nobody.
        """
        self.events.clear()
        self.evaluate(f"document.querySelector({link!r}).click()")
        self._await_loaded()

    def _await_loaded(self) -> None:
        while not self.told("Page.loadEventFired"):
            self.events.append(self._next())

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in told:
            raise RuntimeError(f"{script}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def told(self, *methods: str) -> list[dict[str, Any]]:
        """What the page made the browser tell since it was opened."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def screenshot(self, to: Path, *, whole: bool = True) -> None:
        """Write a picture of the page."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        to.write_bytes(base64.b64decode(told["data"]))


@contextmanager
def browser(command: str) -> Iterator[Browser]:
    """A browser that is ended with its context."""
    their_in, to = os.pipe()
    back, their_out = os.pipe()
    with TemporaryDirectory(prefix="herdproof-browser-", ignore_cleanup_errors=True) as profile:
        process = _started(command, profile, their_in, their_out)
        try:
            os.close(their_in)
            os.close(their_out)
            yield Browser(to, back)
        finally:
            with suppress(OSError):
                os.close(to)  # the browser ends when nobody leads it any more
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(back)


def _started(command: str, profile: str, its_in: int, its_out: int) -> subprocess.Popen[bytes]:
    """The process, which reads the protocol as its file 3 and writes it as its file 4."""

    def places() -> None:
        high_in, high_out = os.dup(its_in), os.dup(its_out)
        os.dup2(high_in, 3)
        os.dup2(high_out, 4)

    return subprocess.Popen(
        [command, *OPTIONS, f"--user-data-dir={profile}"], preexec_fn=places, pass_fds=(3, 4),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
