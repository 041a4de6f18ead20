"""
Faults: what a test lets happen to the nth request of a kind, and how that is carried out.

A request that is lost, or whose answer is, ends its connection, as it does on a network of TCP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from herdproof.broker.codec import KafkaRequest
from herdproof.protocols.group_protocol.coordinator.refusals import refusal
from herdproof.protocols.group_protocol.messages import Error
from herdproof.protocols.group_protocol.server import translation
from herdproof.protocols.group_protocol.testing.errors import BadBrokerUse

READS = (
    ApiKey.Fetch, ApiKey.FindCoordinator, ApiKey.ListOffsets, ApiKey.Metadata,
    ApiKey.OffsetForLeaderEpoch,
)  # fmt: skip
"""Requests that change nothing: they are answered, and errors are put into the answer."""


class FaultKind(Enum):
    """The effect on a request that a fault strikes."""

    DROP = "drop"
    """It is lost, and never taken."""
    DELAY = "delay"
    """It is taken later, even if its client has hung up meanwhile."""
    REPEAT = "repeat"
    """It is taken twice, as if it had been sent again; the second answer is sent."""
    ERROR = "error"
    """It is answered with an error, and not taken."""
    LOSE_ANSWER = "lose_answer"
    """It is taken, and the answer is lost."""


@dataclass(eq=False, kw_only=True)
class WireFault:
    """A fault: `seen` requests that it is about came, of which `struck` were struck."""

    kind: FaultKind
    api: str
    client: str | None
    nth: int
    times: int
    error: str | None
    seconds: float
    must_come: bool
    seen: int = 0
    struck: int = 0

    def strikes(self, client: str, api: str) -> bool:
        """Tells whether it strikes this request, which has just come."""
        if api != self.api or self.client not in (None, client):
            return False
        self.seen += 1
        hits = self.nth <= self.seen < self.nth + self.times
        self.struck += hits
        return hits

    def __str__(self) -> str:
        whose = f" of client {self.client!r}" if self.client is not None else ""
        return f"{self.kind.value!r} on {self.api} number {self.nth}{whose}"


def check_api(api: str, spoken: Collection[str]) -> None:
    """Raise `BadBrokerUse` for an API that is none of the broker's: nobody asks for it."""
    if api not in spoken:
        raise BadBrokerUse(
            f"no client sends {api!r} to this broker: say one of {', '.join(sorted(spoken))}"
        )


def fault_of(
    does: str, spoken: Collection[str], *, api: str, client: str | None, nth: int, times: int,
    error: str | None, seconds: float, must_come: bool,
) -> WireFault:  # fmt: skip
    """A fault, in a test's words; raises `BadBrokerUse`."""
    kinds = {kind.value: kind for kind in FaultKind}
    if does not in kinds:
        raise BadBrokerUse(f"there is no fault {does!r}: one of {', '.join(kinds)}")
    check_api(api, spoken)
    if any(each < 1 or each != int(each) for each in (nth, times)):
        raise BadBrokerUse(f"nth={nth}, times={times}: both count from 1")
    kind = kinds[does]
    if (kind is FaultKind.ERROR) != (error is not None):
        raise BadBrokerUse(
            f"{does!r} with error={error!r}: an error is said with 'error' alone, and there it must"
            f" be, such as error='NOT_COORDINATOR'"
        )
    if (kind is FaultKind.DELAY) != (seconds != 0) or not 0 <= seconds < math.inf:
        raise BadBrokerUse(
            f"{does!r} with seconds={seconds}: seconds are said with 'delay' alone, and there they"
            f" must be, more than 0"
        )
    if error is not None:
        error_code(error)
        if ApiKey[api] not in (*translation.VERSIONS, *READS):
            raise BadBrokerUse(f"{api} cannot be answered with an error here: drop it instead")
    return WireFault(
        kind=kind, api=api, client=client, nth=nth, times=times, error=error, seconds=seconds,
        must_come=must_come,
    )  # fmt: skip


@cache
def error_codes() -> Mapping[str, int]:
    """Kafka's errors, by their names."""
    found = {}
    for each in vars(kafka_errors).values():
        code, name = getattr(each, "errno", None), getattr(each, "message", None)
        if code and isinstance(each, type) and name:
            found[name] = int(code)
    return found


def error_code(name: str) -> int:
    """The code of one of Kafka's errors; raises `BadBrokerUse`."""
    if name not in error_codes():
        raise BadBrokerUse(
            f"there is no error {name!r}: write a name as kafka-python has it, such as "
            f"NOT_COORDINATOR"
        )
    return error_codes()[name]


def answer_with(
    error: str, request: KafkaRequest, take: Callable[[Callable[[ApiMessage | None], None]], None],
    reply: Callable[[ApiMessage | None], None],
) -> None:  # fmt: skip
    """Answer a request with an error; `take` has it answered as if there were no fault."""
    code = error_code(error)
    if request.head.api in translation.VERSIONS:
        refused = refusal(translation.read(request), Error.UNKNOWN_SERVER_ERROR)
        reply(with_error(translation.write(request, refused), code))
    else:
        take(lambda answer: reply(with_error(answer, code)))


def with_error(answer: Any, code: int) -> Any:
    """An answer whose every error is this one."""
    for name in answer.fields if answer is not None else ():
        value = getattr(answer, name)
        if name == "error_code":
            setattr(answer, name, code)
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "fields"):
                    with_error(each, code)
    return answer
