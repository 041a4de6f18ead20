"""Errors of frames: one for those that came, one for those that cannot go."""

from __future__ import annotations

from typing import Self

from herdproof.errors import CallerError, HerdError, PeerError
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode

NO_CORRELATION = -1
"""The correlation id of an answer to a frame whose own could not be read."""

NO_TYPE = 0
"""The type id of an answer to a frame whose own could not be read."""


class FrameError(HerdError):
    """
    Fault of a frame, of the peer's or of ours.

    `offset` counts bytes from the first after the size; `path` names the field, from the body down
    to it. Of the header it holds what could be read: `type_id`, `correlation_id`. `answerable` is
    False where the frame is itself a response: those are not answered, or two peers who do not
    understand each other would go on for ever. `told` is True where the peer says that it could
    not read a frame of ours.
    """

    def __init__(self, code: ErrorCode, why: str, offset: int | None = None) -> None:
        super().__init__(why)
        self.code = code
        self.why = why
        self.offset = offset
        self.path = ""
        self.type_id = NO_TYPE
        self.correlation_id = NO_CORRELATION
        self.answerable = True
        self.told = False

    def within(self, name: str) -> Self:
        """Say that it happened in this field, or in this element (`[3]`) of an array."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{name}{joint}{self.path}"
        return self

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        byte = f" (at byte {self.offset} of the frame)" if self.offset is not None else ""
        return f"{self.code.name}: {place}{self.why}{byte}. {self._advice()}"

    def _advice(self) -> str:
        raise NotImplementedError


class WireError(FrameError, PeerError):
    """A frame that came cannot be read: answer it (`conversation.refusal`), and close."""

    def _advice(self) -> str:
        if self.told:
            return "The connection is of no use any more: close it."
        return "Close the connection; docs/wire.md has the layout that the peer must keep to."


class Unsendable(FrameError, CallerError):
    """A message of ours does not fit into its fields; nothing was sent, the connection is well."""

    def _advice(self) -> str:
        return "Nothing was sent; docs/wire.md has the ranges."
