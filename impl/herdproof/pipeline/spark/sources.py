"""
Sources of records: files of trace lines, Parquet, a Kafka topic, Kafka's own log.

Every record keeps its place. A frame of records has the columns `source` (a file's path, or
`topic-partition@`), `block` and `position` (the line, row or offset; a text file's lines are
numbered while they are read) and `raw`, the record's bytes as they were, for which nothing was
decoded yet: what is wrong with a record is for its reader to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from glob import glob, has_magic
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from herdproof.conformance.traces.line import SCHEMA
from herdproof.errors import CallerError
from herdproof.pipeline.spark.files import MARK

LINES = frozenset({".ndjson", ".jsonl", ".json"})
"""Suffixes of files of trace lines in a directory; a file that is named itself may be
called anything."""

PARQUET = b"PAR1"
COMPACTED = "__consumer_offsets-"
"""The beginning of the names of directories of Kafka's own log."""

ALWAYS_WHOLE = 4 * 1024 * 1024
"""Spark never reads a file up to this size in two parts (`spark.sql.files.openCostInBytes`)."""

Bases = Mapping[tuple[str, int], int]
"""The number of lines of a file before a part of it, by the file and where the part begins."""

_ESCAPED = str.maketrans({c: f"\\{c}" for c in "{}[]*?\\"})


class NoSource(CallerError):
    """A source is not there, holds nothing, or cannot be read."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a Kafka that is reached at `bootstrap` ("host:port,…")."""

    bootstrap: str
    name: str

    @property
    def is_log(self) -> bool:
        """Tells whether it is Kafka's own log of groups."""
        return self.name == COMPACTED.rstrip("-")


@dataclass(frozen=True)
class Sources:
    """The sources that were found where the user pointed."""

    text: tuple[str, ...] = ()
    parquet: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    """Directories that hold Kafka's own `__consumer_offsets`."""
    topic: Topic | None = None
    skipped: tuple[str, ...] = ()
    """Contents of a directory that are not read: not called as traces are, or no files."""
    folders: tuple[str, ...] = ()
    """Directories that are followed."""

    @property
    def lines(self) -> bool:
        """Tells whether some of it are lines of traces."""
        return bool(self.text or self.parquet or (self.topic and not self.topic.is_log))

    @property
    def words(self) -> str:
        """The words for what it is."""
        counts = ((self.text, "trace"), (self.parquet, "Parquet file"), (self.segments, "log"))
        told = [f"directory {folder}" for folder in self.folders]
        told += [f"{len(s):,} {name}{'s' * (len(s) != 1)}" for s, name in counts if s]
        return ", ".join(told + ([f"topic {self.topic.name}"] if self.topic else []))


def followed_sources(named: Sequence[str], topic: Topic | None) -> Sources:
    """The sources that can be followed: one directory, or a topic; raises `NoSource`."""
    if bool(named) == bool(topic) or len(named) > 1:
        raise NoSource("--follow takes one directory, or one topic")
    if topic and topic.is_log:
        raise NoSource(f"--follow cannot follow {topic.name}: audit it from time to time instead")
    if topic:
        return Sources(topic=topic)
    (folder,) = named
    if "://" not in folder and not Path(folder).is_dir():
        raise NoSource(f"--follow: {folder} is no directory")
    return Sources(folders=(folder if "://" in folder else str(Path(folder).resolve()),))


@dataclass
class _Found:
    """The sources found so far."""

    text: dict[str, None] = field(default_factory=dict)
    parquet: dict[str, None] = field(default_factory=dict)
    segments: dict[str, None] = field(default_factory=dict)
    skipped: dict[str, None] = field(default_factory=dict)


def find_sources(named: Iterable[str], topic: Topic | None = None) -> Sources:
    """
    Files, directories, globs and addresses of other file systems (`s3a://…`), sorted by kind.

    Raises `NoSource` where nothing is.
    """
    found = _Found()
    for name in named:
        if "://" in name:  # Spark's to find
            (found.parquet if name.rstrip("/").endswith(".parquet") else found.text)[name] = None
        elif Path(name).exists():
            _add(Path(name), found)
        elif not has_magic(name):
            raise NoSource(f"there is no file or directory {name}")
        elif not (matches := sorted(glob(name, recursive=True))):  # noqa: PTH207 (absolute ones too)
            raise NoSource(f"no file matches {name}")
        else:
            for match in matches:
                _add(Path(match), found)
    made = Sources(
        text=tuple(found.text), parquet=tuple(found.parquet), segments=tuple(found.segments),
        topic=topic, skipped=tuple(found.skipped),
    )  # fmt: skip
    if not (made.words or topic):
        raise NoSource(
            f"nothing to audit in {', '.join(named)}: a directory's traces are called"
            f" {', '.join(f'*{suffix}' for suffix in sorted(LINES))} (or .gz of these) or *.parquet"
        )
    return made


def _add(path: Path, found: _Found) -> None:
    """Add a file, or what a directory holds."""
    if path.is_file():
        (found.parquet if _is_parquet(path) else found.text)[str(path.resolve())] = None
        return
    if path.name.startswith(COMPACTED) or any(path.glob(f"{COMPACTED}*/*.log")):
        found.segments[str(path.resolve())] = None
        return
    ours = {mark.parent for mark in path.rglob(MARK)}
    found.skipped.update(dict.fromkeys(f"{folder} (tables of an audit)" for folder in sorted(ours)))
    for below in sorted(path.rglob("*")):
        if below.is_dir() and not below.is_symlink():
            continue
        if not ours.isdisjoint(below.parents):
            continue
        hidden = any(part.startswith((".", "_")) for part in below.relative_to(path).parts)
        if hidden or not below.is_file():
            if _is_called_a_trace(below) or not hidden:
                found.skipped[str(below)] = None
            continue
        if _is_parquet(below):
            found.parquet[str(below.resolve())] = None
        elif _is_called_a_trace(below):
            found.text[str(below.resolve())] = None
        else:
            found.skipped[str(below)] = None


def _is_called_a_trace(path: Path) -> bool:
    """Tells whether a file is called as those of trace lines are, packed or not."""
    ends = path.suffixes[-2:]
    return not LINES.isdisjoint(ends) and ends[-1] in {*LINES, ".gz"}


def _is_parquet(path: Path) -> bool:
    """Tells whether a file begins as Parquet does."""
    try:
        with path.open("rb") as file:
            return file.read(len(PARQUET)) == PARQUET
    except OSError as problem:
        raise NoSource(f"{path} cannot be read: {problem.strerror}") from problem


# ── Frames of records ───────────────────────────────────────────────────────────────────────


def records(spark: Any, sources: Sources) -> tuple[Any, Bases, int]:
    """
    All records of these sources, what their lines' numbers need, and how many there are.

    It costs one reading without Python.
    """
    frames: list[Any] = []
    bases: Bases = {}
    count = 0
    if sources.text:
        frames.append(text_records(spark, sources.text))
        bases, count = line_bases(frames[-1], sources.text)
    others = []
    if sources.parquet:
        others.append(parquet_records(spark, sources.parquet))
    if sources.topic and not sources.topic.is_log:
        others.append(topic_records(spark, sources.topic))
    count += sum(frame.count() for frame in others)
    return reduce(lambda one, other: one.unionByName(other), frames + others), bases, count


def text_records(spark: Any, paths: Sequence[str]) -> Any:
    """Lines of text files, with the file's part that they stand in."""
    from pyspark.sql import functions as f

    read = spark.read.option("lineSep", "\n").option("recursiveFileLookup", "true")
    return read.text([for_spark(path) for path in paths]).select(*text_columns(f))


def text_columns(f: Any) -> list[Any]:
    """The columns of a text file's records."""
    return [
        f.col("_metadata.file_path").alias("source"),
        f.col("_metadata.file_block_start").alias("block"),
        f.lit(None).cast("long").alias("position"),
        # As bytes: a string that is not UTF-8 would end the whole job in Arrow.
        f.col("value").cast("binary").alias("raw"),
    ]


def line_bases(frame: Any, paths: Sequence[str]) -> tuple[Bases, int]:
    """The number of lines before each part of files that are read in several; and in all."""
    if all("://" not in path and Path(path).stat().st_size <= ALWAYS_WHOLE for path in paths):
        return {}, frame.count()
    parts = frame.groupBy("source", "block").count().orderBy("source", "block").collect()
    bases: dict[tuple[str, int], int] = {}
    source, lines = None, 0
    for part in parts:
        if part["source"] != source:
            source, lines = part["source"], 0
        bases[part["source"], part["block"]] = lines
        lines += part["count"]
    return bases, sum(part["count"] for part in parts)


def parquet_records(spark: Any, paths: Sequence[str]) -> Any:
    """Rows of Parquet files: their column `value`, or else all columns as a line of JSON."""
    from pyspark.sql import functions as f

    read = spark.read.option("mergeSchema", "true").option("recursiveFileLookup", "true")
    rows = read.parquet(*(for_spark(path) for path in paths))
    if dict(rows.dtypes).get("value") in ("string", "binary"):
        raw = f.col("value").cast("binary")
    else:
        told = f.struct(*(f.col(f"`{c}`") for c in rows.columns))
        line = f.to_json(told, {"ignoreNullFields": "false"})
        if dict(rows.dtypes).get("schema") in ("int", "bigint"):
            # From version 2 on, a line leaves out what others have columns for.
            line = f.when(f.col("schema") >= SCHEMA, f.to_json(told)).otherwise(line)
        raw = line.cast("binary")
    return rows.select(
        f.col("_metadata.file_path").alias("source"),
        f.lit(0).cast("long").alias("block"),
        (f.col("_metadata.row_index") + 1).alias("position"),
        raw.alias("raw"),
    )


def topic_records(spark: Any, topic: Topic) -> Any:
    """A topic's records, from the first that there is to the last one now."""
    read = spark.read.format("kafka").option("kafka.bootstrap.servers", topic.bootstrap)
    read = read.option("subscribe", topic.name).option("startingOffsets", "earliest")
    return read.option("endingOffsets", "latest").load().select(*topic_columns())


def topic_columns() -> list[Any]:
    """The columns of a topic's records."""
    from pyspark.sql import functions as f

    return [
        f.concat("topic", f.lit("-"), f.col("partition").cast("string"), f.lit("@"))
        .alias("source"),
        f.lit(0).cast("long").alias("block"),
        f.col("offset").alias("position"),
        f.col("value").alias("raw"),
    ]  # fmt: skip


def for_spark(path: str) -> str:
    """A path as Spark wants it: a name with brackets is no pattern."""
    return path if "://" in path else path.translate(_ESCAPED)


def shown(source: str) -> str:
    """A source as people read it: a file's path instead of its address."""
    if not source.startswith("file:"):
        return source
    return unquote("/" + source.removeprefix("file:").lstrip("/"))


def place_of(source: str, position: int) -> str:
    """Where a record is: `file:line`, or `topic-partition@offset`."""
    return f"{source}{position}" if source.endswith("@") else f"{source}:{position}"


# ── Kafka, before Spark is asked ────────────────────────────────────────────────────────────


def check_topic(topic: Topic, timeout_s: float = 10.0) -> None:
    """Raises `NoSource` unless a broker answers that has this topic."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda _problem: None}
    client = AdminClient({"bootstrap.servers": topic.bootstrap, **quiet})
    try:
        known = client.list_topics(timeout=timeout_s).topics
    except KafkaException as problem:
        raise NoSource(
            f"no Kafka broker answers at {topic.bootstrap} within {timeout_s:g} s"
            f" ({problem.args[0].str()})"
        ) from problem
    if topic.name not in known:
        some = ", ".join(sorted(known)[:8]) or "none"
        raise NoSource(f"{topic.bootstrap} has no topic {topic.name}; it has {some}")
