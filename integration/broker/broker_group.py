"""
A group of unmodified clients, a process each, and the records that tell who has which partition.

Records are written in rounds, one to each partition. A round is heard when each of its records has
come to somebody; whoever got it then has that partition. A group has settled when all its members,
and nobody else, have some. All that members tell is kept for whoever judges
(`broker_judgement.py`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from herdproof.java import QUICK_START, find_java
from herdproof.kafka.jars import TOOLS_VERSION, kafka_jars
from herdproof.kafka.topics import TopicRecord, Topics
from herdproof.servers import Servers, eventually
from integration.broker.broker_member import SESSION_MS

HERE = Path(__file__).parent
JAVA = "java"
OURS = "herdproof"
PYTHON = tuple(
    kind
    for kind in ("confluent-kafka", "kafka-python", "aiokafka")
    if kind != "aiokafka" or importlib.util.find_spec("aiokafka")
)
"""The clients that are installed; aiokafka may not be."""
SETTLES_S = 60.0
ROUND_S = 1.0
"""How long a round may take to be heard before the next one is written."""
DEFAULT = "default"
"""The assignors that a client has where nothing is said of them."""
JAVAS_ASSIGNORS = {
    name: {"partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{found}Assignor"}
    for name, found in (("range", "Range"), ("cooperative-sticky", "CooperativeSticky"))
} | {DEFAULT: {}}
"""The property that names them."""
EVENT = '{"event"'
"""The beginning of a line of `broker_member.py`, before which there may be a half one."""
JAVAS_LINE = re.compile(r"Partition:(\d+)\tOffset:(\d+)\t(\S+)$")
"""A record, as Java's console consumer prints it."""
JAVA_PROPERTIES = {
    "heartbeat.interval.ms": "300",
    "auto.commit.interval.ms": "200",
    "auto.offset.reset": "earliest",
}


def java_with_tools() -> list[str]:
    """The beginning of a command for one of Kafka's own tools, whose class follows."""
    jars = os.pathsep.join(map(str, (*kafka_jars(), *kafka_jars(version=TOOLS_VERSION))))
    return [
        *(find_java().path, *QUICK_START, "-Xmx96m", "-cp", jars),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    ]


class BrokerGroup:
    """A group's members, by name; each is of a kind, and a process."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, partitions: int, assignor: str = "range",
        session_ms: int = SESSION_MS,
    ) -> None:  # fmt: skip
        self._bootstrap, self.name, self.topic = bootstrap, group, topic
        self._assignor, self._session_ms = assignor, session_ms
        self._partitions = partitions
        self._topics = Topics(bootstrap, 30.0)
        self._servers = Servers("group member")
        self._read: dict[str, int] = {}
        """Bytes of each member's output that were looked at."""
        self._rounds = 0
        self._lives: Counter[str] = Counter()
        """The number of times that each member was started."""
        self.told: list[dict[str, Any]] = []
        """The lines of Python's members (`broker_member.py`), each life's in its order."""
        self.printed: dict[str, list[tuple[int, int]]] = {}
        """By each life of Java's, the partitions and offsets of its records, in its order."""
        self.stems: dict[str, str] = {}
        """By each life, how its member ids begin: its instance id, or its client id."""
        self.delivered: dict[str, set[str]] = {}
        """Who got each record's value, which begins with its round and partition."""

    def start(self, name: str, kind: str, instance: str | None = None) -> None:
        """Let a member join; under this `group.instance.id`, if it is to be a static one."""
        self._look()  # what its life before has printed
        self._read.setdefault(name, 0)
        self._lives[name] += 1
        self.stems[self._life(name)] = instance or self._life(name)
        begin = self._java if kind == JAVA else partial(self._python, kind)
        self._servers.launch(name, begin(self._life(name), instance))

    def _life(self, name: str) -> str:
        """The client id of its present life."""
        return f"{name}.{self._lives[name]}"

    def _python(self, kind: str, life: str, instance: str | None) -> list[str]:
        """A client of Python's, in a process."""
        return [
            *(sys.executable, str(HERE / "broker_member.py"), kind),
            *(self._bootstrap, self.name, self.topic, "--assignor", self._assignor),
            *("--session-ms", str(self._session_ms), "--client", life),
            *(("--instance", instance) if instance else ()),
        ]

    def _java(self, life: str, instance: str | None) -> list[str]:
        """Java's console consumer."""
        properties = {
            **JAVA_PROPERTIES,
            "client.id": life,
            "session.timeout.ms": str(self._session_ms),
            **JAVAS_ASSIGNORS[self._assignor],
            **({"group.instance.id": instance} if instance else {}),
        }
        told = [f"--consumer-property={key}={value}" for key, value in properties.items()]
        return [
            *java_with_tools(),
            *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", self.topic),
            *("--bootstrap-server", self._bootstrap, "--group", self.name, *told),
            *("--property", "print.partition=true", "--property", "print.offset=true"),
        ]

    def kill(self, name: str) -> None:
        """End a member at once (SIGKILL): nobody is told."""
        self._servers.kill(name)

    def leave(self, name: str) -> None:
        """Let a member leave (SIGTERM), and wait for its end."""
        self._servers.ask_to_end(name)
        self.await_end(name)

    def await_end(self, name: str) -> str:
        """Wait until a member has ended; all that it has printed."""
        ended = eventually(lambda: not self._servers.alive(name), SETTLES_S)
        assert ended, f"{name} does not end\n{self._complaints()}"
        return self._log(name).read_text(errors="replace")

    def pause(self, name: str) -> None:
        """Stop a member in its tracks (SIGSTOP)."""
        self._servers.pause(name)

    def resume(self, name: str) -> None:
        """Let it go on."""
        self._servers.resume(name)

    def settle(self, *names: str, evenly: bool = False) -> dict[int, str]:
        """Wait until these members, and no others, have all partitions, or as many; who which."""
        deadline = time.monotonic() + SETTLES_S
        owners: dict[int, str] = {}
        while time.monotonic() < deadline:
            owners = self.hear_a_round()
            if len(owners) == self._partitions and set(owners.values()) == set(names):
                shares = Counter(owners.values()).values()
                if not evenly or max(shares) - min(shares) <= 1:
                    return owners
        raise AssertionError(f"the group has not settled: {owners}\n{self._complaints()}")

    def lost(self) -> list[str]:
        """Records that nobody got, once all that were written had their time."""
        deadline = time.monotonic() + SETTLES_S
        while (missing := self._missing(self._rounds)) and time.monotonic() < deadline:
            self._look()
            time.sleep(0.02)
        return missing

    def hear_a_round(self) -> dict[int, str]:
        """Write a round; who got which partition's record, as far as one did in time."""
        self._rounds += 1
        values = [f"{self._rounds}-{number}" for number in range(self._partitions)]
        self._topics.produce(
            self.topic,
            [TopicRecord(value.encode(), partition=n) for n, value in enumerate(values)],
        )
        deadline = time.monotonic() + ROUND_S
        while time.monotonic() < deadline:
            self._look()
            if all(len(self.delivered.get(value, ())) == 1 for value in values):
                break
            time.sleep(0.02)
        got = {n: self.delivered.get(value, set()) for n, value in enumerate(values)}
        return {n: next(iter(who)) for n, who in got.items() if len(who) == 1}

    def _missing(self, rounds: int) -> list[str]:
        """Values that nobody got."""
        written = (f"{r}-{n}" for r in range(1, rounds + 1) for n in range(self._partitions))
        return [value for value in written if value not in self.delivered]

    def _look(self) -> None:
        """Read what the members have printed since."""
        for name, at in self._read.items():
            data = self._log(name).read_bytes()[at:]
            whole = data[: data.rfind(b"\n") + 1]
            self._read[name] = at + len(whole)
            for line in whole.decode(errors="replace").splitlines():
                self._hear(name, line)

    def _hear(self, name: str, line: str) -> None:
        """Take a line that a member has printed; what is no record, nor told of any, is logs."""
        if (found := JAVAS_LINE.search(line)) is not None:
            partition, offset, value = int(found[1]), int(found[2]), found[3]
            self.printed.setdefault(self._life(name), []).append((partition, offset))
        elif line.endswith("}") and (begins := line.rfind(EVENT)) >= 0:
            told = json.loads(line[begins:])
            self.told.append(told)
            if "value" not in told:
                return
            value = told["value"]
        else:
            return
        self.delivered.setdefault(value, set()).add(name)

    def _log(self, name: str) -> Path:
        return self._servers.home(name) / "server.log"

    def _complaints(self) -> str:
        """The ends of what the members have printed, and who of them has ended."""
        return "\n".join(
            f"{name}{'' if self._servers.alive(name) else ' (it has ended)'}: "
            f"{self._log(name).read_text(errors='replace')[-800:]}"
            for name in self._read
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for name in self._read:
            if self._servers.alive(name) and error is None:
                self._servers.resume(name)
                self._servers.kill(name)
        self._look()  # for whoever judges
        self._servers.close()
