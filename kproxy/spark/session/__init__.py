"""A Spark session: on this machine with nothing to set up, on a cluster, or of a Spark Connect server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kproxy.spark.session.java import find_java, jvm_options, launching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Whatever Spark runs on. Few files of a partitioned write are open at once, so that it need not sort: a quarter of
#: its time, and half of its memory.
_ANYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.maxConcurrentOutputFileWriters": "8",
}
#: Of a session whose driver is this process.
_DRIVER = {"spark.ui.showConsoleProgress": "false"}  # kproxy.spark.session.progress has its own


def session(
    master: str | None = None, *, short: bool = False, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The session there is, or a new one.

    Args:
        master: ``local[N]``, ``spark://…``, ``yarn``, ``k8s://…``, or ``sc://…`` for a Spark Connect server. None is
            what `spark-submit` or SPARK_REMOTE say, else all cores of this machine.
        short: The work is small: start quickly rather than run fast.
        settings: More of Spark's settings; they win over the ones here.

    Raises:
        JavaMissing: There is no Java to run on.
        ImportError: Packages that Spark Connect needs are missing.
    """
    from pyspark.sql import SparkSession

    if (active := SparkSession.getActiveSession()) is not None:
        return active
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    remote = (master or os.environ.get("SPARK_REMOTE", "")).startswith("sc://")
    if master is None and not submitted and not remote:
        master = "local[*]"
    local = master is not None and master.startswith("local")
    chosen = {**_ANYWHERE, **({} if remote else _DRIVER), **(_local() if local else {}), **(settings or {})}
    builder = SparkSession.builder.appName("kproxy").config(map=dict(chosen))
    if remote:
        return (builder.remote(master) if master else builder).getOrCreate()
    if master is not None:
        builder = builder.master(master)
    if submitted:
        return builder.getOrCreate()
    java = find_java()
    with launching(java):
        return builder.config("spark.driver.defaultJavaOptions", jvm_options(java, short=short)).getOrCreate()


def _local() -> dict[str, str]:
    """Settings for a driver that is the only machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have the packages of this process
    cores = len(os.sched_getaffinity(0))
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{max(1024, 256 * cores)}m",
        "spark.sql.shuffle.partitions": str(max(4, cores)),
    }
