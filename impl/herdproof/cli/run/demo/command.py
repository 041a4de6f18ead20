"""`herdproof demo`: a herd on this machine, broken on a plan, watched on a page, and judged."""

from __future__ import annotations

import json
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from herdproof.cli.run.demo.plan import LEAST_S, WHOLE_S
from herdproof.errors import HerdError, Signalled
from herdspec.language.errors import UsageError

LAST_PORT = 65_535


def demo(
    seconds: Annotated[
        float,
        typer.Option(min=LEAST_S, metavar="N", help="How long records flow; starting is extra."),
    ] = WHOLE_S,
    consumers: Annotated[int, typer.Option(min=1, max=9, metavar="N", help="How many.")] = 3,
    partitions: Annotated[int, typer.Option(min=1, max=24, metavar="N", help="Of the topic.")] = 6,
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=LAST_PORT, metavar="N", help="The page's; a free one where not said."
        ),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A new directory for traces, logs, tables and pages."),
    ] = None,
) -> None:
    """Break a Kafka and its consumers, and show who reads what."""
    from herdproof.cli.run.demo.demonstration import Demonstration, Size
    from herdproof.cli.run.demo.judging import REPORT
    from herdproof.cli.run.demo.page import PageServer, page
    from herdproof.ports import refuse_a_port_in_use

    check_services()
    if port is not None:
        refuse_a_port_in_use(port)
    size = Size(seconds=seconds, consumers=consumers, partitions=partitions)
    place = folder(out)
    shown = Demonstration(size, place, lambda sentence: print(sentence, flush=True))
    try:
        with PageServer(port or 0, shown.snapshot, place / REPORT) as server:
            print(f"the page: {server.url}", flush=True)
            if open_page:
                webbrowser.open(server.url)
            ending = shown.run()
            kept = place / "demo.html"
            kept.write_text(page(shown.snapshot()), encoding="utf-8")
            (place / "demo.json").write_text(json.dumps(shown.snapshot(), indent=2) + "\n")
            server.await_watchers()
    except HerdError as problem:
        problem.add_note(f"what was logged and traced until then is in {place}")
        raise
    except (KeyboardInterrupt, Signalled):
        print(f"herdproof: all is ended; what was traced is in {place}", file=sys.stderr)
        raise
    print(f"\nthe audit's page: {ending.report}\nthe live page, as it was: {kept}")
    print(ending.sentence, flush=True)
    raise typer.Exit(ending.code)


def check_services() -> None:
    """Raises what is missing for ZooKeeper and Kafka, before anything is started."""
    from herdproof.java import find_java
    from herdproof.kafka.jars import kafka_jars
    from herdproof.report.render import Output
    from herdproof.zookeeper.jars import zookeeper_jars

    find_java()
    zookeeper_jars()
    kafka_jars(Output().errors.print)


def folder(out: Path | None) -> Path:
    """The new directory that is asked for, or a temporary one that stays."""
    if out is None:
        return Path(tempfile.mkdtemp(prefix="herdproof-demo-"))
    try:
        out.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(
            f"--out {out}: it exists already; name a directory that does not"
        ) from None
    except OSError as problem:
        raise UsageError(f"--out {out}: it cannot be made ({problem.strerror})") from None
    return out.resolve()
