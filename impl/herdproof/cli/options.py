"""Arguments that commands share: which spec, and at which size it is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from herdspec.language.errors import UsageError

SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="election, election-drafted, election/FLAW, or path/to/file.py:ClassName.",
    ),
]
SizeOption = Annotated[
    list[str] | None,
    typer.Option("--size", metavar="SORT=N", help="Elements of a sort (2 where not said)."),
]
FaultsOption = Annotated[int, typer.Option(min=0, help="How many faults may happen.")]
BoundOption = Annotated[
    int | None,
    typer.Option(min=1, help="The largest natural (where not said, raised as far as need be)."),
]
WithinOption = Annotated[
    bool, typer.Option("--within", help="The bounds are meant: ask nothing of what is beyond.")
]
MayEndOption = Annotated[
    bool, typer.Option("--may-end", help="A state without a next step is no failure.")
]


def folder_for_stories(folder: Path | None) -> Path | None:
    """A folder for stories, which may yet have to be made; raises `UsageError`."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise UsageError(f"--save-stories {folder}: it is no folder; name one for the stories")
    return folder


SaveStoriesOption = Annotated[
    Path | None,
    typer.Option(
        "--save-stories", metavar="DIR", help="Save each story that is found as a file.",
        callback=folder_for_stories,
    ),
]  # fmt: skip

BOOTSTRAP_NAMES = ("--bootstrap-servers", "--bootstrap")
WHERE_KAFKA_LISTENS = "Where Kafka listens: host:port,host:port."
BOOTSTRAP_SERVERS = typer.Option(*BOOTSTRAP_NAMES, metavar="HOSTS", help=WHERE_KAFKA_LISTENS)
KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka",
        metavar="KEY=VALUE",
        help="A setting of Kafka's client (librdkafka's), as security.protocol=SSL; repeatable.",
    ),
]


def kafka_settings(said: list[str] | None) -> dict[str, str]:
    """`--kafka KEY=VALUE`, taken apart; raises `UsageError`."""
    found = {}
    for text in said or []:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(
                f"--kafka {text}: write KEY=VALUE, a setting of Kafka's client; addresses are "
                f"--bootstrap-servers"
            )
        found[key.strip()] = value.strip()
    return found


TraceOption = Annotated[
    Path | None, typer.Option("--trace", metavar="FILE", help="Append a line for each step to it.")
]
RunOption = Annotated[
    str,
    typer.Option("--run", metavar="NAME", help="What the traces of all nodes together are called."),
]
