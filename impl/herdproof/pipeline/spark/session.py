"""
The Spark session of a job: on this machine by default, on a cluster unchanged.

On a cluster the workers get Herdproof's two packages as one zip; the libraries that it stands on
have to be there (docs/pipeline.md).
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp
from typing import IO, Any

from herdproof.java import find_java

LOCAL = "local[*]"


@contextmanager
def spark_job(
    name: str, master: str | None = LOCAL, settings: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """
    A session that ends with the context.

    What Java and the workers write aside goes to a file. It is kept, and told, where the job fails.
    """
    kept = False
    with NamedTemporaryFile(prefix="herdproof-spark-", suffix=".log", delete=False) as aside:
        try:
            spark = spark_session(name, master, settings, aside)
            try:
                yield spark
            finally:
                spark.stop()
        except Exception as problem:
            kept = os.fstat(aside.fileno()).st_size > 0
            if kept:
                problem.add_note(f"What Spark said aside is in {aside.name}")
            raise
        finally:
            if not kept:
                Path(aside.name).unlink(missing_ok=True)


def spark_session(
    name: str, master: str | None = LOCAL, settings: Mapping[str, str] | None = None,
    aside: IO[bytes] | None = None,
) -> Any:  # fmt: skip
    """
    A session of that name; `master` None takes what `spark-submit` was told.

    `aside` gets what a Java that is started now writes on its error stream. Raises `HerdError`
    where there is no Java.
    """
    find_java()
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    told = {"spark.app.name": f"herdproof {name}", **_settings(master), **(settings or {})}
    conf = SparkConf().setAll([*told.items()])
    if aside is not None and SparkContext._gateway is None:
        SparkContext(conf=conf, gateway=launch_gateway(conf, {"stderr": aside}))  # type: ignore[no-untyped-call]
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    local = str(spark.sparkContext.master).startswith("local")
    if not local and Path(__file__).exists():  # else this is the zip that spark-submit has sent
        spark.sparkContext.addPyFile(str(packed(Path(mkdtemp(prefix="herdproof-")))))
    return spark


def _settings(master: str | None) -> dict[str, str]:
    """The settings of every job; a user's own `spark.…` settings go before."""
    wanted = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
    }
    if master is None:
        return wanted
    wanted["spark.master"] = master
    if master.startswith("local"):
        wanted |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
            # Java only moves what Python makes: its second compiler costs more than it saves.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
        }
    return wanted


def packed(into: Path) -> Path:
    """Both packages as one zip, as `spark-submit --py-files` takes it."""
    import herdproof
    import herdspec

    made = into / "herdproof.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in (herdproof, herdspec):
            assert package.__file__ is not None, "both are regular packages"
            root = Path(package.__file__).parent
            for path in sorted(root.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.write(path, Path(root.name) / path.relative_to(root))
        for name, text in _entered().items():
            archive.writestr(name, text)
    return made


def _entered() -> dict[str, str]:
    """By file, what enters the installed protocols where the packages are no installation."""
    from herdspec.check.protocol import GROUP, entries

    lines = [f"[{GROUP}]", *(f"{name} = {entry.value}" for name, entry in entries().items())]
    folder = "herdproof_protocols-0.dist-info"
    return {
        f"{folder}/METADATA": "Metadata-Version: 2.1\nName: herdproof-protocols\nVersion: 0\n",
        f"{folder}/entry_points.txt": "\n".join([*lines, ""]),
    }
