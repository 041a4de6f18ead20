"""
Writes an audit's tables: a directory with one Parquet directory for each.

All tables of an audit are written beside it first, and then change places with the former ones, so
that a reader finds those of one audit. Everything goes through Hadoop's file systems: a cluster's
storage will do as well as a disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from herdproof.errors import HerdError
from herdproof.pipeline.spark.outgoing import rows_of

MARK = "_herdproof.json"
"""The file that says that a directory is ours, and what was found; Spark's readers skip it."""


class NotOurs(HerdError):
    """A directory holds something else than an audit's tables."""


class Store:
    """The directory `out`, on a disk or on what Spark can reach."""

    def __init__(self, spark: Any, out: str) -> None:
        self._jvm = spark.sparkContext._jvm
        self.path = self._path(out)
        conf = spark.sparkContext._jsc.hadoopConfiguration()
        self._files = self.path.getFileSystem(conf)
        self.path = self._files.makeQualified(self.path)
        self._fresh: Any = None

    def _path(self, *parts: Any) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(*parts)

    def check(self) -> None:
        """Raises `NotOurs` where writing would destroy what is not an audit's."""
        self._recover()
        if not self._files.exists(self.path):
            return
        if not self._files.getFileStatus(self.path).isDirectory():
            raise NotOurs(f"{self.name} is a file: name a directory that --out may write")
        if self._files.exists(self._path(self.path, MARK)) or not self._holds(self.path):
            return
        raise NotOurs(
            f"{self.name} holds something that no audit wrote: name another --out, or empty it"
        )

    def fresh(self, table: str) -> str:
        """Where a table is to be written now; readers do not see it before `swap`."""
        self.begin()
        return str(self._path(self._fresh, table).toString())

    def begin(self) -> None:
        """Choose where the fresh tables are written."""
        if self._fresh is None:
            self._fresh = self._beside("new")

    def swap(self, told: Mapping[str, Any]) -> None:
        """Let the fresh tables, and what is told of them, take the former ones' place."""
        assert self._fresh is not None, "some table was written"
        self._write(self._path(self._fresh, MARK), json.dumps(told, indent=2))
        if self._files.exists(self.path):
            self._rename(self.path, self._beside("old"))
        self._rename(self._fresh, self.path)
        self._fresh = None
        for kind in ("new", "old"):
            for left in self._all_beside(kind):
                self._files.delete(left, True)

    def give_up(self) -> None:
        """Remove what was begun."""
        if self._fresh is not None:
            self._files.delete(self._fresh, True)
            self._fresh = None

    @property
    def name(self) -> str:
        """The directory as people write it."""
        return str(self.path.toString()).removeprefix("file:")

    def of(self, *parts: str) -> str:
        """The address of something in the directory."""
        return str(self._inside(*parts).toString())

    def names(self, *parts: str) -> list[str]:
        """What stands in a directory of it."""
        path = self._inside(*parts)
        if not self._files.exists(path):
            return []
        return [str(status.getPath().getName()) for status in self._files.listStatus(path)]

    def write(self, name: str, text: str) -> None:
        """Write a small file in the directory."""
        self._write(self._inside(name), text)

    def read(self, name: str) -> str | None:
        """Read it; `None` if it is not there."""
        path = self._inside(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def _inside(self, *parts: str) -> Any:
        path = self.path
        for part in parts:
            path = self._path(path, part)
        return path

    def _recover(self) -> None:
        """Whoever was killed between the two renames left the former tables beside."""
        former = self._all_beside("old")
        if former and not self._files.exists(self.path):
            self._rename(former[-1], self.path)

    def _holds(self, path: Any) -> bool:
        return len(self._files.listStatus(path)) > 0

    def _beside(self, kind: str) -> Any:
        return self._path(self.path.getParent(), f"{self.path.getName()}.{kind}-{uuid4().hex[:8]}")

    def _all_beside(self, kind: str) -> list[Any]:
        parent, begins = self.path.getParent(), f"{self.path.getName()}.{kind}-"
        if not self._files.exists(parent):
            return []
        found = [status.getPath() for status in self._files.listStatus(parent)]
        return [path for path in found if str(path.getName()).startswith(begins)]

    def _rename(self, here: Any, there: Any) -> None:
        if not self._files.rename(here, there):
            raise HerdError(f"{here.toString()} cannot be renamed to {there.toString()}")

    def _write(self, path: Any, text: str) -> None:
        stream = self._files.create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()


AT_ONCE = 3
"""So many tables are written at the same time: most are small, and a job's start takes longest."""


def write_tables(
    store: Store, whole: Any, tables: Iterable[str], tell: Callable[[str], None]
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
