"""An interruption (Ctrl-C) that waits until a search can be put aside whole."""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Any


class Stop:
    """Within its `with` block an interrupt only sets `wanted`; `pass_on` then raises it."""

    def __init__(self, waits: bool) -> None:
        self.waits = waits and threading.current_thread() is threading.main_thread()
        self.wanted = False
        self._old: Any = None

    def __enter__(self) -> Stop:
        if self.waits:
            self._old = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, *_: Any) -> None:
        self.wanted = True

    def pass_on(self) -> None:
        """Raise the interrupt that waited, if one did."""
        if self.wanted:
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self.waits:
            signal.signal(signal.SIGINT, self._old)
