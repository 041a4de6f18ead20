"""
A consumer that registers anew says where its former registrations have stopped.

Reference: docs/wire.md, "Bodies of version 4".
"""

from __future__ import annotations

import pytest

from herdproof.consuming.events import Consumed
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.client.consumer import ConsumerPhase
from herdproof.protocols.central_coordinator.client.former import (
    BROUGHT_BYTES,
    FORMER_SAID,
    FormerRegistrations,
)
from herdproof.protocols.central_coordinator.events import Closed, Connected, Subscribe, Tick
from herdproof.protocols.central_coordinator.wire import version1
from herdproof.protocols.central_coordinator.wire.messages import (
    Brought,
    ErrorCode,
    Frame,
    Ping,
    Register,
    RegisterResponse,
    Start,
    Stop,
    StopResponse,
)
from properties.protocols.central_coordinator.client.consumer_script import Script
from properties.protocols.central_coordinator.wire.wire_frames import REGISTER

GIVEN = Offset("t", "0", 50)


def registers(script: Script, after_ms: int = 10_000) -> Register:
    """Let it consult and register; what its Register says."""
    idle = script.core.phase is ConsumerPhase.IDLE
    script(Subscribe() if idle else Tick(), after_ms=after_ms)
    script.consult()
    [register] = script(Connected(script.channel)).sent
    assert isinstance(register, Register)
    return register


def accepted(script: Script, member: str) -> Register:
    """Let it consult and register, as `member`; what its Register said."""
    register = registers(script)
    script.answer(RegisterResponse(ErrorCode.NONE, member))
    return register


def consuming(script: Script, generation: int = 3, member: str = "1-1") -> Script:
    """It is registered, and was given a partition of which 50 records are finished."""
    accepted(script, member)
    return script.read(Start((GIVEN,)), generation=generation)


def finished(script: Script, offset: int, generation: int = 3) -> Script:
    """Its application has finished all before an offset."""
    return script(Consumed(Offset("t", "0", offset), generation))


def lost(script: Script) -> Script:
    """Its connection breaks."""
    return script(Closed(script.channel))


def test_what_was_finished_and_not_reported_is_brought() -> None:
    """Where it stopped, in the generation in which it consumed."""
    script = consuming(Script(resumes=False)).read(Ping(0), generation=3)
    finished(script, 57)

    register = accepted(lost(script), "1-2")

    assert register.former == ("1-1",)
    assert register.brought == (Brought("1-1", 3, (Offset("t", "0", 57),)),)


def test_a_record_that_it_was_given_and_has_not_finished_is_not_brought() -> None:
    """A record counts when the application asks for the next one."""
    script = consuming(Script(resumes=False))

    register = registers(lost(script))

    assert register.brought == (Brought("1-1", 3, (GIVEN,)),)


def test_what_is_finished_while_it_would_resume_is_brought_where_it_is_refused() -> None:
    """It consumes on until then, and says as much."""
    script = lost(finished(consuming(Script()), 57))
    assert registers(finished(script, 60), after_ms=500).resumes == "1-1"
    script.answer(RegisterResponse(ErrorCode.STALE_GENERATION))

    register = registers(script)

    assert (register.resumes, register.former) == (None, ("1-1",))
    assert register.brought == (Brought("1-1", 3, (Offset("t", "0", 60),)),)


def test_who_resumes_brings_nothing() -> None:
    """No version says both: what it was before owns nothing in its generation."""
    script = finished(consuming(Script()), 57)
    accepted(lost(script), "1-2")  # so late that its lease is over
    script.read(Start((GIVEN,)), generation=4)

    register = registers(lost(script), after_ms=500)

    assert (register.resumes, register.brought) == ("1-2", None)


def test_what_it_has_answered_to_a_stop_is_brought() -> None:
    """The answer may have been lost; it says the same again."""
    script = finished(consuming(Script()), 57)
    [answer] = script.read(Stop(), generation=3).sent
    assert isinstance(answer, StopResponse)
    assert answer.offsets == (Offset("t", "0", 57),)

    register = registers(lost(script))

    assert register.brought == (Brought("1-1", 3, answer.offsets),)


def test_a_user_that_commits_brings_nothing() -> None:
    """What nobody has committed is to be read again."""
    script = finished(consuming(Script(resumes=False, auto_commit=False)), 57)

    assert registers(lost(script)).brought is None


def test_it_is_said_until_a_later_generation_was_consumed() -> None:
    """Who has accepted it may be gone before it is stored; later it counts for nothing."""
    script = lost(finished(consuming(Script(resumes=False)), 57))
    first = accepted(script, "1-2").brought
    again = accepted(lost(script), "2-1").brought
    finished(script.read(Start((Offset("t", "0", 57),)), generation=4), 58, 4)
    later = accepted(lost(script), "2-2").brought

    assert first == again == (Brought("1-1", 3, (Offset("t", "0", 57),)),)
    assert later == (Brought("2-1", 4, (Offset("t", "0", 58),)),)


def test_of_whom_nothing_is_said_nothing_is_kept() -> None:
    """So many registrations are named, and no more remembered."""
    former = FormerRegistrations()
    for number in range(FORMER_SAID + 3):
        former.add(f"1-{number}", 3, (GIVEN,))

    names, brought = former.said(is_busy=False)

    assert names is not None
    assert brought is not None
    assert {one.registration for one in brought} == set(names)
    assert len(names) == FORMER_SAID


@pytest.mark.parametrize("count", [1, 100, 10_000])
def test_a_register_stays_within_what_a_coordinator_reads(count: int) -> None:
    """Of very many partitions, it says where some have stopped."""
    former = FormerRegistrations()
    offsets = tuple(Offset("ü" * 20, str(number), 2**60) for number in range(count))
    former.add("1-1", 3, offsets)

    names, brought = former.said(is_busy=False)

    assert brought is not None
    said = Register(**{f: getattr(REGISTER, f) for f in REGISTER.__struct_fields__}
                    | {"former": names, "brought": brought})  # fmt: skip
    most = len(version1.encode(Frame(REGISTER))) + BROUGHT_BYTES + 64
    assert len(version1.encode(Frame(said))) < most
    assert brought[0].offsets == offsets[: len(brought[0].offsets)]
    assert len(brought[0].offsets) == count or count == 10_000


def test_an_older_coordinator_is_spoken_to_as_it_understands() -> None:
    """It refuses version 4, then 2; the next one is spoken to in version 4 again."""
    script = lost(finished(consuming(Script(resumes=False)), 57))
    said = []
    for _ in range(2):
        register = registers(script)
        said.append((register.former, register.brought is None))
        script.answer(RegisterResponse(ErrorCode.UNKNOWN_VERSION))
    register = accepted(script, "1-2")
    said.append((register.former, register.brought is None))

    assert said == [(("1-1",), False), (("1-1",), True), (None, True)]
    assert accepted(lost(script), "2-1").brought is not None
