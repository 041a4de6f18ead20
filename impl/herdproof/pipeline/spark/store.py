"""
Writes an audit's tables: a directory with one Parquet directory for each.

All tables of an audit are written beside it first, and then change places with the former ones, so
that a reader finds those of one audit. What Spark writes goes through Hadoop's file systems: a
cluster's storage will do as well as a disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from herdproof.errors import NotOurs
from herdproof.pipeline.spark.files import MARK, Disk, Files, Hadoop
from herdproof.pipeline.spark.outgoing import rows_of

ON_DISK = "file:"
"""Beginning of the address of what is on a machine's own disk, to Spark."""


class OutputDirectory:
    """The directory `out`: on what Spark can reach; without a `spark`, on this machine's disk."""

    def __init__(self, spark: Any, out: str) -> None:
        self._files: Files = Disk() if spark is None else Hadoop(spark)
        self.path = self._files.qualified(out)
        self._fresh: str | None = None

    def check(self) -> None:
        """Raises `NotOurs` where writing would destroy what no job of ours has written."""
        self._recover()
        if not self._files.exists(self.path):
            return
        if not self._files.is_folder(self.path):
            raise NotOurs(f"{self.name} is a file: name a directory that --out may write")
        held = self._files.names(self.path)
        if held and MARK not in held:
            raise NotOurs(f"{self.name} holds something else: name another --out, or empty it")

    def fresh(self, table: str) -> str:
        """Where a table is to be written now; readers do not see it before `swap`."""
        return f"{self.begin()}/{table}"

    def begin(self) -> str:
        """The directory in which the fresh tables are written."""
        if self._fresh is None:
            self._fresh = self._beside("new")
        return self._fresh

    def swap(self, told: Mapping[str, Any]) -> None:
        """Let the fresh tables, and what is told of them, take the former ones' place."""
        assert self._fresh is not None, "some table was written"
        self._files.write(f"{self._fresh}/{MARK}", json.dumps(told, indent=2))
        if self._files.exists(self.path):
            self._files.rename(self.path, self._beside("old"))
        self._files.rename(self._fresh, self.path)
        self._fresh = None
        for kind in ("new", "old"):
            for left in self._all_beside(kind):
                self._files.delete(left)

    def give_up(self) -> None:
        """Remove what was begun."""
        if self._fresh is not None:
            self._files.delete(self._fresh)
            self._fresh = None

    @property
    def name(self) -> str:
        """The directory as people write it."""
        return self.path.removeprefix(ON_DISK)

    @property
    def is_on_disk(self) -> bool:
        """True if it is on this machine's disk."""
        return "://" not in self.path

    def of(self, *parts: str) -> str:
        """The address of something in the directory."""
        return "/".join((self.path, *parts))

    def names(self, *parts: str) -> list[str]:
        """The names in a directory of it."""
        return self._files.names(self.of(*parts))

    def write(self, name: str, text: str) -> None:
        """Write a small file in the directory."""
        self._files.write(self.of(name), text)

    def read(self, name: str) -> str | None:
        """Read it; `None` if it is not there."""
        return self._files.read(self.of(name))

    def _recover(self) -> None:
        """Whoever was killed between the two renames left the former tables beside."""
        former = self._all_beside("old")
        if former and not self._files.exists(self.path):
            self._files.rename(former[-1], self.path)

    def _beside(self, kind: str) -> str:
        return f"{self.path}.{kind}-{uuid4().hex[:8]}"

    def _all_beside(self, kind: str) -> list[str]:
        parent, _, name = self.path.rpartition("/")
        found = self._files.names(parent or "/")
        return [f"{parent}/{other}" for other in found if other.startswith(f"{name}.{kind}-")]


AT_ONCE = 3
"""The number of tables written at a time: most are small, and a job's start takes longest."""


def write_tables(
    store: OutputDirectory, whole: Any, tables: Iterable[str], tell: Callable[[str], None]
) -> None:
    """
    Write the tables that a frame of all rows holds; a record is in quarantine once.

    `tell` hears what is written.
    """

    def write(name: str) -> None:
        rows = rows_of(whole, name)
        if name == "quarantine":
            rows = rows.dropDuplicates(["place"])
        rows.write.parquet(store.fresh(name))
        tell(f"wrote {name}")

    names = list(tables)
    store.begin()  # before several ask where
    with ThreadPoolExecutor(AT_ONCE) as several:
        list(several.map(write, names))
