"""
The file systems that tables are written to: a disk of this machine, or what Spark can reach.

An address is a text; what stands in a directory is its address, a slash, and a name.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

from herdproof.errors import WorldError

MARK = "_herdproof.json"
"""The file that says that a directory is ours, and what was found; Spark's readers skip it."""


class Files(Protocol):
    """A file system."""

    def qualified(self, told: str) -> str:
        """The address of what a user has named."""

    def exists(self, address: str) -> bool:
        """Tells whether something is there."""

    def is_folder(self, address: str) -> bool:
        """Tells whether that is a directory."""

    def names(self, folder: str) -> list[str]:
        """The names in a directory; none if it is not there."""

    def rename(self, here: str, there: str) -> None:
        """Move a file or directory to an address where nothing is."""

    def delete(self, address: str) -> None:
        """Delete a file, or a directory with all that it holds, if it is there."""

    def write(self, address: str, text: str) -> None:
        """Write a small file, and the directories it stands in."""

    def read(self, address: str) -> str | None:
        """A small file's text; None if it is not there."""


class Disk:
    """A disk of this machine."""

    def qualified(self, told: str) -> str:
        """The path from the root."""
        return str(Path(told).absolute())

    def exists(self, address: str) -> bool:
        """Tells whether something is there."""
        return Path(address).exists()

    def is_folder(self, address: str) -> bool:
        """Tells whether that is a directory."""
        return Path(address).is_dir()

    def names(self, folder: str) -> list[str]:
        """The names in a directory."""
        return sorted(p.name for p in Path(folder).iterdir()) if Path(folder).exists() else []

    def rename(self, here: str, there: str) -> None:
        """Move a file or directory."""
        Path(here).rename(there)

    def delete(self, address: str) -> None:
        """Delete a file or directory; of a link, the link."""
        if (path := Path(address)).is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)

    def write(self, address: str, text: str) -> None:
        """Write a small file."""
        Path(address).parent.mkdir(parents=True, exist_ok=True)
        Path(address).write_text(text, encoding="utf-8")

    def read(self, address: str) -> str | None:
        """A small file's text."""
        return Path(address).read_text(encoding="utf-8") if Path(address).exists() else None


class Hadoop:
    """Whatever Hadoop's file systems reach, through a session's Java."""

    def __init__(self, spark: Any) -> None:
        self._jvm = spark.sparkContext._jvm
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()

    def _path(self, address: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(address)

    def _at(self, address: str) -> tuple[Any, Any]:
        """A file system, and the path there."""
        path = self._path(address)
        return path.getFileSystem(self._conf), path

    def qualified(self, told: str) -> str:
        """The address with its scheme."""
        files, path = self._at(told)
        return str(files.makeQualified(path).toString())

    def exists(self, address: str) -> bool:
        """Tells whether something is there."""
        files, path = self._at(address)
        return bool(files.exists(path))

    def is_folder(self, address: str) -> bool:
        """Tells whether that is a directory."""
        files, path = self._at(address)
        return bool(files.getFileStatus(path).isDirectory())

    def names(self, folder: str) -> list[str]:
        """The names in a directory."""
        files, path = self._at(folder)
        if not files.exists(path):
            return []
        return [str(status.getPath().getName()) for status in files.listStatus(path)]

    def rename(self, here: str, there: str) -> None:
        """Move a file or directory."""
        files, path = self._at(here)
        if not files.rename(path, self._path(there)):
            raise WorldError(f"{here} cannot be renamed to {there}")

    def delete(self, address: str) -> None:
        """Delete a file or directory."""
        files, path = self._at(address)
        files.delete(path, True)

    def write(self, address: str, text: str) -> None:
        """Write a small file."""
        files, path = self._at(address)
        stream = files.create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def read(self, address: str) -> str | None:
        """A small file's text."""
        files, path = self._at(address)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
