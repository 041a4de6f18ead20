"""Commits of system B's consumer that return a future, beside a coordinator that is played."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait

import pytest

from herdproof import Consumer
from herdproof.consumer import CommitFailed, Misused
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode, Start, Stop
from properties.protocols.central_coordinator.client.test_central_session import (
    T0,
    Stage,
    stage,
    take,
)

__all__ = ["stage"]  # a fixture

PATIENCE_S = 10


def unanswered(stage: Stage, consumer: Consumer) -> Future[None]:
    """A commit that was sent and that the coordinator does not answer."""
    sent = len(stage.coordinator.commits)
    stage.coordinator.commit_code = None
    asked = consumer.commit_async()
    stage.coordinator.until(lambda: len(stage.coordinator.commits) > sent, "a commit")
    assert not asked.done()
    return asked


def test_commits_are_sent_in_the_order_in_which_they_are_asked_for(stage: Stage) -> None:
    """Nobody waits for the one before; each future is done when its own is stored."""
    consumer = stage.started(40, 41, 42, auto_commit=False)
    records = [consumer.poll(PATIENCE_S) for _ in range(3)]

    asked = [consumer.commit_async(record) for record in records]

    assert [each.result(PATIENCE_S) for each in asked] == [None] * 3
    assert stage.coordinator.commits == [(Offset("t", "0", at),) for at in (41, 42, 43)]
    assert consumer.committed(("t", 0)) == 43


@pytest.mark.parametrize("code", [ErrorCode.STALE_GENERATION, ErrorCode.NOT_STORED])
def test_a_refusal_comes_through_the_future(stage: Stage, code: ErrorCode) -> None:
    """With the wire's code and the reason, as of `commit`."""
    consumer = stage.started(40)
    stage.coordinator.commit_code = code

    refused = consumer.commit_async().exception(PATIENCE_S)

    assert isinstance(refused, CommitFailed)
    assert refused.code is code
    assert consumer.committed(("t", 0)) == 40


def test_a_commit_whose_connection_is_lost_is_not_stored(stage: Stage) -> None:
    """Its future is done when that is known, not when the next coordinator is found."""
    consumer = stage.started(40)
    asked = unanswered(stage, consumer)

    stage.coordinator.cut()

    refused = asked.exception(PATIENCE_S)
    assert isinstance(refused, CommitFailed)
    assert refused.code is ErrorCode.NOT_STORED


def test_a_record_that_was_revoked_is_refused_through_the_future(stage: Stage) -> None:
    """
    "An offset commit is accepted only from the partition's owner in the current generation."
    Reference: the contract, 2.
    """
    consumer = stage.started(40)
    record = consumer.poll(PATIENCE_S)
    stage.coordinator.ask(Stop(), generation=1)
    revoked = consumer.commit_async(record)
    stage.coordinator.ask(Start((T0,)), generation=2)

    again = consumer.commit_async(record)

    for each in (revoked, again):
        with pytest.raises(CommitFailed, match="not \\(or no longer\\) this"):
            each.result(PATIENCE_S)
    assert stage.coordinator.commits == []


def test_a_close_leaves_no_future_behind(stage: Stage) -> None:
    """One that was not answered by then has failed: nobody knows what came of it."""
    consumer = stage.started(40, auto_commit=False)
    asked = unanswered(stage, consumer)

    consumer.close(0.1)

    with pytest.raises(CommitFailed, match="nobody knows"):
        asked.result(PATIENCE_S)
    with pytest.raises(Misused, match="closed"):
        consumer.commit_async()


def test_a_commit_is_not_cancelled(stage: Stage) -> None:
    """It may be stored already; who tries does the consumer no harm."""
    consumer = stage.started(40, 41, auto_commit=False)
    take(consumer)
    asked = unanswered(stage, consumer)

    assert not asked.cancel()
    stage.coordinator.commit_code = ErrorCode.NONE

    take(consumer)
    consumer.commit()
    assert consumer.committed(("t", 0)) == 41
    stage.coordinator.cut()
    assert isinstance(asked.exception(PATIENCE_S), CommitFailed)


def test_a_callback_asks_for_commits_and_waits_for_none(stage: Stage) -> None:
    """In the consumer's own thread `commit` would wait for itself; `commit_async` does not."""
    consumer = stage.started(40, auto_commit=False)
    asked = unanswered(stage, consumer)
    seen: list[object] = []
    over = threading.Event()

    def called(done: Future[None]) -> None:
        try:
            consumer.commit()
        except Misused as refused:
            seen.append(str(refused))
        seen.append(consumer.commit_async())
        over.set()
        raise LookupError("a callback fails")

    asked.add_done_callback(called)
    stage.coordinator.commit_code = ErrorCode.NONE
    stage.coordinator.cut()

    assert over.wait(PATIENCE_S)
    sentence, second = seen
    assert sentence == "a callback of a commit cannot wait for another: call `commit_async`"
    assert isinstance(second, Future)
    assert wait([second], PATIENCE_S).done == {second}
    stage.coordinator.await_registrations(2)
