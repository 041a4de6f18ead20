"""`herdproof groups …`: what operators may see of groups of any protocol, and do to idle ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from herdproof.cli.examples import example
from herdproof.cli.options import BOOTSTRAP_SERVERS, KafkaOption, kafka_settings
from herdproof.report.render import JsonOption, Output, table_of
from herdspec.check.verdict import counted
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.consuming.assignment import Partition
    from herdproof.consuming.fetching.watermarks import OffsetRange
    from herdproof.consuming.stored_groups import AllGroups, FoundGroup
    from herdproof.zookeeper.client import Client
    from herdproof.zookeeper.operations import Answer, Operation

SESSION_S = 10.0

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]
ZooKeeperOption = Annotated[
    str | None,
    typer.Option("--zookeeper", metavar="HOSTS", help="host:port,host:port, as the brokers'."),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The coordinators' settings (TOML).")
]
ProtocolOption = Annotated[
    str | None,
    typer.Option("--protocol", metavar="NAME", help="Whose, if several have such a group."),
]

groups = typer.Typer(
    name="groups",
    help="Look at consumer groups; reset or delete what has no members.",
    no_args_is_help=True,
)


@groups.command("list", epilog=example("groups list"))
def list_groups(
    zookeeper: ZooKeeperOption = None, config: ConfigOption = None, json: JsonOption = None
) -> None:
    """List the groups that there are. Each has its protocol, its members and partitions."""
    out = Output(json)
    with stored(zookeeper, config) as here:
        found = here.glance_at_all()
    table = table_of("group", "protocol", "members", "generation", "partitions")
    for each in found:
        group = each.group
        table.add_row(
            escape(group.name), each.protocol, str(len(group.members)),
            text(group.counts.get("generation")), str(len(group.partitions)),
        )  # fmt: skip
    out.table(table)
    out.json({"command": "groups list", "groups": [summary(group) for group in found]})


@groups.command(epilog=example("groups describe"))
def describe(
    group: GroupArgument, protocol: ProtocolOption = None, zookeeper: ZooKeeperOption = None,
    config: ConfigOption = None, json: JsonOption = None,
) -> None:  # fmt: skip
    """Show a group's members, and who owns which partition. At which offset they are, too."""
    out = Output(json)
    with stored(zookeeper, config) as here:
        seen = here.read(group, protocol)
    found = seen.group
    counts = [f"{name} {number}" for name, number in found.counts.items()]
    said = [seen.protocol, *counts, counted(len(found.members), "member")]
    out.line(f"{found.name}: {', '.join(said)}")
    members = table_of("member", "subscribed to")
    for consumer, wants in sorted(found.subscriptions.items()):
        members.add_row(escape(consumer), escape(wants))
    owned = table_of("topic", "partition", "owner" if found.members else "last owner", "offset")
    for partition in found.partitions:
        owner, offset = found.owner_names.get(partition), found.offsets.get(partition)
        owned.add_row(*map(escape, partition), escape(owner) if owner else "–", text(offset))
    out.table(members)
    out.table(owned)
    out.json({"command": "groups describe", **details(seen)})


@groups.command(epilog=example("groups lag"))
def lag(
    group: GroupArgument, bootstrap_servers: Annotated[str, BOOTSTRAP_SERVERS],
    kafka: KafkaOption = None, protocol: ProtocolOption = None, zookeeper: ZooKeeperOption = None,
    config: ConfigOption = None, json: JsonOption = None,
) -> None:  # fmt: skip
    """Count the records of each partition that are not committed."""
    from herdproof.consuming.fetching.watermarks import watermarks

    out, settings = Output(json), kafka_settings(kafka)
    with stored(zookeeper, config) as here:
        found = here.read(group, protocol).group
    ranges = watermarks(bootstrap_servers, found.partitions, settings)
    table = table_of("topic", "partition", "offset", "end", "lag")
    for partition in found.partitions:
        offset, end = found.offsets.get(partition), ranges[partition].latest
        table.add_row(
            *map(escape, partition), text(offset), str(end), text(behind(offset, ranges[partition]))
        )
    out.table(table)
    known = [behind(found.offsets.get(p), r) for p, r in ranges.items()]
    total = sum(lag for lag in known if lag is not None)
    out.line(f"{counted(total, 'record')} behind, and {known.count(None)} partitions not begun")
    lines = [
        {
            "topic": p[0], "partition": p[1], "offset": found.offsets.get(p),
            "end": ranges[p].latest, "lag": behind(found.offsets.get(p), ranges[p]),
        }
        for p in found.partitions
    ]  # fmt: skip
    out.json({"command": "groups lag", "group": group, "lag": total, "partitions": lines})


@groups.command("reset-offsets", epilog=example("groups reset-offsets"))
def reset_offsets(
    group: GroupArgument,
    topic: Annotated[str, typer.Option("--topic", help="Whose partitions are reset.")],
    to: Annotated[str, typer.Option("--to", metavar="earliest|latest|N", help="Where to go.")],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", metavar="N", help="Only these; all if none.")
    ] = None,
    bootstrap_servers: Annotated[str | None, BOOTSTRAP_SERVERS] = None,
    kafka: KafkaOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
    protocol: ProtocolOption = None, zookeeper: ZooKeeperOption = None,
    config: ConfigOption = None, json: JsonOption = None,
) -> None:  # fmt: skip
    """Have a group without members go on from other offsets."""
    from herdproof.consuming.stored_groups import require_empty

    require_destination(to, bootstrap_servers)
    out, settings = Output(json), kafka_settings(kafka)
    with stored(zookeeper, config, settings) as here:
        seen = here.read(group, protocol)
        found = seen.group
        require_empty(found)
        there = partitions_of(here, topic, bootstrap_servers, settings)
        wanted = chosen(topic, there, partition)
        offsets = resolved(to, wanted, bootstrap_servers, settings)
        table = table_of("topic", "partition", "offset", "becomes")
        for p, offset in offsets.items():
            table.add_row(*map(escape, p), text(found.offsets.get(p)), str(offset))
        if not dry_run:
            seen.reset_offsets(offsets)
    out.table(table)
    what = f"offsets of {counted(len(offsets), 'partition')} of {group}"
    out.line(f"dry run: {what} would be reset" if dry_run else f"{what} are reset")
    changes = [
        {"topic": p[0], "partition": p[1], "offset": found.offsets.get(p), "becomes": offset}
        for p, offset in offsets.items()
    ]
    out.json(
        {"command": "groups reset-offsets", "group": group, "done": not dry_run, "offsets": changes}
    )


@groups.command(epilog=example("groups delete"))
def delete(
    group: GroupArgument, kafka: KafkaOption = None, protocol: ProtocolOption = None,
    zookeeper: ZooKeeperOption = None, config: ConfigOption = None,
) -> None:  # fmt: skip
    """Delete a group without members, and its offsets."""
    with stored(zookeeper, config, kafka_settings(kafka)) as here:
        seen = here.read(group, protocol)
        seen.delete()
    Output().line(f"{group} is deleted, with {counted(len(seen.group.offsets), 'offset')}")


# ── Parts ───────────────────────────────────────────────────────────────────────────────────


@contextmanager
def stored(
    zookeeper: str | None, config: Path | None, kafka: Mapping[str, str] | None = None
) -> Iterator[AllGroups]:
    """The groups of the cluster whose ZooKeeper is named, by an option or in the settings."""
    from herdproof.consuming.stored_groups import AllGroups
    from herdproof.protocols.central_coordinator.server.configuration import read
    from herdproof.protocols.election.shell import ignore_link, ignore_watch
    from herdproof.zookeeper.client import Client

    settings = read(config, {"zookeeper.hosts": zookeeper}).zookeeper
    with Client(
        settings.hosts, session_timeout_s=SESSION_S, digest=settings.digest(),
        on_link=ignore_link, on_watch=ignore_watch,
    ) as client:  # fmt: skip
        yield AllGroups(lambda operations: ask_all(client, operations), kafka)


def ask_all(client: Client, operations: Sequence[Operation]) -> list[Answer]:
    """Send operations all at once, and wait for their answers."""
    from herdproof.zookeeper.operations import Refusal, Why

    futures: list[Future[Answer]] = [Future() for _ in operations]
    for operation, future in zip(operations, futures, strict=True):
        client.submit(operation, future.set_result)
    answers = []
    for future in futures:
        try:
            answers.append(future.result(SESSION_S))
        except TimeoutError:
            answers.append(Refusal(Why.CONNECTION_LOSS))
    return answers


def partitions_of(
    here: AllGroups, topic: str, bootstrap_servers: str | None, settings: Mapping[str, str]
) -> list[str]:
    """The partitions that a topic has, as ZooKeeper has it, or Kafka itself, where it is named."""
    from herdproof.consuming.fetching.watermarks import partition_numbers
    from herdproof.consuming.stored_groups import UnknownTopic

    try:
        return here.reader.partitions_of(topic)
    except UnknownTopic as problem:
        if bootstrap_servers is None:
            raise UsageError(
                f"{problem} Where Kafka's topics are not in this ZooKeeper, add "
                f"--bootstrap-servers: Kafka knows which partitions there are"
            ) from None
        return partition_numbers(bootstrap_servers, topic, settings)


def chosen(topic: str, partitions: Sequence[str], only: list[int] | None) -> list[Partition]:
    """The partitions to be reset."""
    unknown = [number for number in only or [] if str(number) not in partitions]
    if unknown:
        raise UsageError(
            f"--partition {unknown[0]}: {topic} has {counted(len(partitions), 'partition')}, "
            f"numbered from 0"
        )
    return [(topic, number) for number in partitions if not only or int(number) in only]


def require_destination(to: str, bootstrap_servers: str | None) -> None:
    """Refuse what no partition can be reset to, before any group is looked at."""
    if to.isdecimal():
        return
    if to not in ("earliest", "latest"):
        raise UsageError(f"--to {to}: write earliest, latest, or an offset, which is 0 or more")
    if bootstrap_servers is None:
        raise UsageError(f"--to {to} needs --bootstrap-servers: Kafka knows where a partition ends")


def resolved(
    to: str,
    wanted: Sequence[Partition],
    bootstrap_servers: str | None,
    settings: Mapping[str, str],
) -> dict[Partition, int]:
    """The offset that each partition is to get."""
    from herdproof.consuming.fetching.watermarks import watermarks

    if bootstrap_servers is None:
        return dict.fromkeys(wanted, int(to))
    ranges = watermarks(bootstrap_servers, wanted, settings)
    if to == "earliest":
        return {partition: ranges[partition].earliest for partition in wanted}
    if to == "latest":
        return {partition: ranges[partition].latest for partition in wanted}
    for partition, has in ranges.items():
        if not has.earliest <= int(to) <= has.latest:
            raise UsageError(
                f"--to {to}: {' '.join(partition)} has the offsets {has.earliest} to {has.latest}"
            )
    return dict.fromkeys(wanted, int(to))


def behind(offset: int | None, has: OffsetRange) -> int | None:
    """The number of records that are not committed; None where nothing is."""
    return None if offset is None else max(0, has.latest - max(offset, has.earliest))


def text(number: int | None) -> str:
    """A number, or a dash where there is none."""
    return "–" if number is None else str(number)


def summary(found: FoundGroup) -> dict[str, Any]:
    """A group in a few numbers."""
    group = found.group
    return {
        "group": group.name, "protocol": found.protocol, **group.counts,
        "members": len(group.members), "partitions": len(group.partitions),
    }  # fmt: skip


def details(found: FoundGroup) -> dict[str, Any]:
    """A group as JSON."""
    group = found.group
    lines = [
        {
            "topic": partition[0], "partition": partition[1],
            "owner": group.owner_names.get(partition), "offset": group.offsets.get(partition),
        }
        for partition in group.partitions
    ]  # fmt: skip
    return {
        **summary(found), "members": dict(group.members),
        "subscriptions": dict(group.subscriptions), "partitions": lines,
    }  # fmt: skip
