"""
Looks whether Kafka answers, and has the topics that are wanted: to say at once what is wrong.

A consumer whose topic is not there, or whose Kafka is not where it is looked for, would just get no
record. Nothing else depends on what is seen here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException

from herdproof.consuming.addresses import host_ports
from herdproof.troubles import Troubles
from herdproof.who_listens import Listening, who_listens

FIRST_LOOK_S = 0.5
"""Time from a consumer's start until its topics are looked for."""
LOOK_AGAIN_S = 2.0
"""Time until topics are looked for again, while something is wrong."""
ANSWER_S = 0.5
"""Longest time that Kafka may take to answer: fetching waits meanwhile."""
ASKED = 3
"""The number of addresses looked at, to find out why Kafka does not answer."""
KAFKA = "kafka"
"""Name of the trouble that no broker is reached."""

UNREACHED = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._SSL,
        KafkaError._TIMED_OUT,
    }
)
"""Errors that librdkafka reports where no broker answers it."""


class AsksTopics(Protocol):
    """Kafka's client, as far as it is asked for topics."""

    def list_topics(self, topic: str | None, timeout: float, /) -> object:
        """The metadata of a topic, or of all; raises `KafkaException`."""


class KafkaWatch:
    """
    The view of one consumer, whose client has these `settings`.

    Called by one thread; what is wrong goes to `troubles`.
    """

    def __init__(
        self, settings: Mapping[str, str | int | float | bool], topics: Sequence[str],
        troubles: Troubles,
    ) -> None:  # fmt: skip
        self._hosts = str(settings.get("bootstrap.servers", ""))
        protocol = str(settings.get("security.protocol", ""))
        self._speaks_tls = protocol.upper().endswith("SSL")
        self._topics = topics
        self._missing = list(topics)
        self._troubles = troubles
        self._is_unreached = False
        self._due = time.monotonic() + FIRST_LOOK_S

    def troubled(self, problem: KafkaError) -> None:
        """Kafka's client has said that something is wrong, which may pass."""
        if problem.code() in UNREACHED:
            self._is_unreached = True
            why = partial(unreached, self._hosts, problem.str(), speaks_tls=self._speaks_tls)
            self._troubles.tell_why(KAFKA, why)
        else:
            said = f"Kafka: {problem.str()}; it is tried again"
            self._troubles.tell(f"Kafka's {problem.code()}", said, lasts=False)

    def look(self, kafka: AsksTopics) -> None:
        """Ask for the topics that were not there, if it is time to, or whether Kafka answers."""
        if time.monotonic() < self._due or not (self._missing or self._is_unreached):
            return
        try:
            if not self._missing:
                kafka.list_topics(self._topics[0] if self._topics else None, ANSWER_S)
            there = [topic for topic in self._missing if self._has(kafka, topic)]
        except KafkaException as problem:
            self.troubled(problem.args[0])
        else:
            self._is_unreached = False
            self._troubles.mend(KAFKA, f"Kafka at {self._hosts} answers")
            self._missing = [topic for topic in self._missing if topic not in there]
        self._due = time.monotonic() + LOOK_AGAIN_S

    def _has(self, kafka: AsksTopics, topic: str) -> bool:
        """True if Kafka has a topic; tells that it has not, or that it has now."""
        told = getattr(kafka.list_topics(topic, ANSWER_S), "topics", {}).get(topic)
        if told is not None and told.error is None:
            self._troubles.mend(f"topic {topic}", f"the topic {topic!r} is there")
            return True
        if told is None or told.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            said = f"Kafka at {self._hosts} has no topic {topic!r}: nothing is read of it until it"
            self._troubles.tell(f"topic {topic}", f"{said} is created (is its name right?)")
        else:
            self.troubled(told.error)
        return False


def unreached(hosts: str, why: str, *, speaks_tls: bool) -> str:
    """Why Kafka does not answer: who listens there instead, if that is it."""
    reason = why
    for host, port in host_ports("bootstrap_servers", hosts)[:ASKED]:
        address, found = f"{host}:{port}", who_listens(host, port)
        reason = found.misfit(speaks_tls=speaks_tls) or why
        if found is Listening.TLS and not speaks_tls:
            reason += " (security.protocol among its settings of Kafka: SSL, or SASL_SSL)"
        elif found in (Listening.SOMEBODY, Listening.ZOOKEEPER) and not speaks_tls:
            reason = f"{found.said(address)} (coordinators are not Kafka's own address)"
        if found.is_somebody:
            break
    return f"Kafka at {hosts} is not reached: {reason}; it is tried on"
