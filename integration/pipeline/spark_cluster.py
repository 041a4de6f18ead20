"""A real standalone Spark on loopback: a master and workers as processes of their own."""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from herdproof.java import QUICK_START
from herdproof.ports import LOOPBACK, free_ports
from herdproof.servers import Servers

SPARK_HOME = Path(pyspark.__file__).parent


class SparkCluster:
    """
    One master and some workers of one core each, with small memory; all end with their owner.

    `address` is the master's, as `--spark` wants it.
    """

    def __init__(self, directory: Path, workers: int = 2, memory: str = "600m") -> None:
        self._servers = Servers("Spark process", directory)
        self._workers = workers
        self._memory = memory
        self._port, self._web = free_ports(2)

    @property
    def address(self) -> str:
        """Where the master listens."""
        return f"spark://{LOOPBACK}:{self._port}"

    def __enter__(self) -> Self:
        try:
            self._launch("master", "master.Master", "--port", self._port, "--webui-port", self._web)
            self._servers.await_ready(["master"], lambda name: self._says(name, "ALIVE"), 60)
            names = [f"worker{n}" for n in range(1, self._workers + 1)]
            for name in names:
                home = self._servers.home(name)
                self._launch(
                    name, "worker.Worker", "--port", 0, "--webui-port", 0, "--cores", 1,
                    "--memory", self._memory, "--work-dir", home / "work", self.address,
                )  # fmt: skip
            self._servers.await_ready(names, lambda name: self._says(name, "registered with"), 60)
        except BaseException:
            self._servers.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._servers.close()

    def said(self, name: str) -> str:
        """What a process has logged."""
        return (self._servers.home(name) / "server.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        """End a process as a crash would."""
        self._servers.kill(name)

    def _says(self, name: str, word: str) -> bool:
        log = self._servers.home(name) / "server.log"
        return log.exists() and word in self.said(name)

    def _launch(self, name: str, what: str, *arguments: object) -> None:
        java = ["env", f"SPARK_HOME={SPARK_HOME}", f"SPARK_LOCAL_IP={LOOPBACK}"]
        java += ["SPARK_DAEMON_MEMORY=128m", f"SPARK_DAEMON_JAVA_OPTS={' '.join(QUICK_START)}"]
        run = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}"]
        self._servers.launch(name, [*java, *run, "--host", LOOPBACK, *map(str, arguments)])


def bare_python(directory: Path) -> Path:
    """
    A Python with this one's libraries, but without the packages of the tree it was installed from.

    An editable install lives in `.pth` files, which `-S` leaves out: what is to be imported there
    has to have been shipped.
    """
    made = directory / "python"
    libraries = sysconfig.get_path("purelib")
    made.write_text(
        "#!/bin/sh\n"
        f'PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{libraries}" exec {sys.executable} -S "$@"\n'
    )
    made.chmod(made.stat().st_mode | stat.S_IXUSR)
    return made


def bare_environment(**more: str) -> dict[str, str]:
    """This process's environment without a PYTHONPATH, with what Spark needs."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": LOOPBACK, **more}
