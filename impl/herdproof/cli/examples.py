"""An example of each command, as its --help ends with it."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, str] = {
    "verify": "herdproof verify lock.py --junit report.xml",
    "explore": "herdproof explore lock.py --size Client=3 --faults 2",
    "step": "herdproof step lock.py --size Client=2",
    "prove": "herdproof prove lock.py --suggest",
    "refine": "herdproof refine allocator.py",
    "search": "herdproof search lock.py --size Client=4 --depth 20",
    "simulate": "herdproof simulate lock.py --size Client=8 --steps 100000",
    "mutate": "herdproof mutate lock.py",
    "replay": "herdproof replay stories/",
    "diff": "herdproof diff lock.py changed.py --together",
    "conform": "herdproof conform --spec lock.py:Lock server.ndjson client1.ndjson",
    "audit": "herdproof audit traces/ --out audited",
    "demo": "herdproof demo",
    "zookeeper": "herdproof zookeeper --servers 3",
    "kafka": "herdproof kafka --topic orders:6",
    "elect": "herdproof elect --zookeeper 127.0.0.1:2181 --broker 1",
    "coordinator": "herdproof coordinator --broker-id 1 --zookeeper 127.0.0.1:2181",
    "broker": "herdproof broker --topic orders:6",
    "consume": "herdproof consume billing orders --coordinators 127.0.0.1:9192"
    " --bootstrap-servers 127.0.0.1:9092",
    "new": "herdproof new lock",
    "campaign": "herdproof campaign central_coordinator --runs 100 --out campaign",
    "report": "herdproof report audited -o audited.html",
    "doctor": "herdproof doctor",
    "groups list": "herdproof groups list --zookeeper 127.0.0.1:2181",
    "groups describe": "herdproof groups describe billing --zookeeper 127.0.0.1:2181",
    "groups lag": "herdproof groups lag billing --zookeeper 127.0.0.1:2181"
    " --bootstrap-servers 127.0.0.1:9092",
    "groups reset-offsets": "herdproof groups reset-offsets billing --topic orders --to earliest"
    " --zookeeper 127.0.0.1:2181 --bootstrap-servers 127.0.0.1:9092",
    "groups delete": "herdproof groups delete billing --zookeeper 127.0.0.1:2181",
}
"""By a command's name, its subcommand's beside it where it has any."""


def example(command: str) -> str:
    """The last line of a command's --help."""
    return f"Example: {EXAMPLES[command]}"
