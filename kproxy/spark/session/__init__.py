"""Creates a Spark session: local without any setup, on a cluster, or on a Spark Connect server."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kproxy.errors import UserError
from kproxy.io.extras import install_command
from kproxy.spark.session.class_archive import ArchiveWriter
from kproxy.spark.session.embedded_engine import EmbeddedEngine, memory_limit
from kproxy.spark.session.java import find_java, java_launcher, jvm_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings for every master. With a few concurrent writers, a partitioned write need not sort, which saves a quarter of
#: the time and half of the memory. Spark underestimates the size of lines in Parquet by a factor of twenty, so it would
#: broadcast tables that do not fit in memory; jobs name the small ones. With more groups than the last threshold,
#: percentiles and lists sort all rows, which takes twice as long; the default is 128.
_COMMON_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "16384",
}
#: Settings for a few thousand lines. One partition needs one task per exchange, and the tables have hundreds of these.
#: Compiling a plan, or changing it while it runs, costs more than it saves.
_TINY_SETTINGS = {
    "spark.default.parallelism": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "10485760",  # such a table is small by any estimate
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
#: Settings for sessions whose driver this process starts.
_DRIVER_SETTINGS = {"spark.ui.showConsoleProgress": "false"}  # replaced by kproxy.spark.session.progress
#: Packages that are sent to executors.
_PACKAGES = "spark.submit.pyFiles"
_CONNECT_PORT, _CONNECT_TIMEOUT_S = 15002, 10


def session(
    master: str | None = None,
    *,
    engine: str | None = None,
    short: bool = False,
    tiny: bool = False,
    settings: Mapping[str, str] | None = None,
    writer: ArchiveWriter | None = None,
) -> SparkSession:
    """Return the current session, or a new one.

    Args:
        master: ``local[N]``, ``spark://…``, ``yarn``, ``k8s://…``, or ``sc://…`` for a Spark Connect server. None means
            the choice of `spark-submit` or SPARK_REMOTE, else all cores of this machine.
        engine: ``spark``, or ``embedded`` for Sail in a separate process, which ends with this one or on the session's
            `stop`. None means Spark, or the embedded engine if only that is installed and no master is
            named. All sessions of a process use the same engine.
        short: The work is small: optimize for a quick start rather than throughput.
        tiny: There are only a few thousand lines, so that planning and starting tasks cost more than running them.
        settings: More Spark settings, which take precedence.
        writer: Writes an archive of classes when the session's JVM ends, if there is none.

    Raises:
        UserError: No suitable Java, no Spark Connect server at the address, or no Sail.
        ImportError: Packages for Spark Connect are missing.
    """
    from pyspark.sql import SparkSession

    if (active := SparkSession.getActiveSession()) is not None:
        return active
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    is_remote = (master or os.environ.get("SPARK_REMOTE", "")).startswith("sc://")
    is_named = master is not None or is_submitted or is_remote
    if engine is None and not is_named and find_spec("py4j") is None:  # absent with pyspark-client
        engine = "embedded"
    if engine == "embedded":
        return EmbeddedEngine(memory_limit()).connect(settings)
    if is_remote:
        return _connect(master or os.environ["SPARK_REMOTE"], {**_COMMON_SETTINGS, **(settings or {})})
    from pyspark import SparkContext

    from kproxy.spark.session.java_names import remember_names

    if not is_named:
        master = "local[*]"
    is_local = master is not None and master.startswith("local")
    all_settings = {
        **_COMMON_SETTINGS,
        **_DRIVER_SETTINGS,
        **(_local_settings(tiny=tiny) if is_local else {}),
        **(settings or {}),
    }
    builder = SparkSession.builder.appName("kproxy").config(map=dict(all_settings))
    if master is not None:
        builder = builder.master(master)
    if is_submitted:
        return builder.getOrCreate()
    java = find_java()
    with java_launcher(java):
        options = jvm_options(java, short=short, tiny=tiny, writer=writer)
        new_session = builder.config("spark.driver.defaultJavaOptions", options).getOrCreate()
    remember_names(new_session)
    gateway = SparkContext._gateway
    if writer is not None and gateway is not None:
        writer.record_start(gateway.proc)
    return new_session


def stop_java() -> None:
    """End the JVM of a stopped session; the next session starts another one."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # ends the JVM
        SparkContext._gateway = SparkContext._jvm = None


def _connect(url: str, settings: dict[str, str]) -> SparkSession:
    """Return a session on a Spark Connect server."""
    from pyspark.sql import SparkSession

    if find_spec("grpc") is None:
        raise UserError(f"a Spark Connect server needs its client: {install_command('spark')}")
    url_parts = urlsplit(url)
    address = (url_parts.hostname or "", url_parts.port or _CONNECT_PORT)
    try:
        socket.create_connection(address, _CONNECT_TIMEOUT_S).close()  # Spark would retry for ten minutes
    except OSError as error:
        reason = error.strerror or "no answer"
        raise UserError(f"no Spark Connect server at {address[0]}:{address[1]}: {reason}") from None
    files = settings.pop(_PACKAGES, "")
    session = SparkSession.builder.appName("kproxy").config(map=dict(settings)).remote(url).getOrCreate()
    if files:
        session.addArtifacts(*files.split(","), pyfile=True)
    return session


def _local_settings(*, tiny: bool) -> dict[str, str]:
    """Return settings for a driver without executors."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers use the packages of this process
    cores = len(os.sched_getaffinity(0))
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{max(1024, 256 * cores)}m",
        "spark.sql.shuffle.partitions": str(max(4, cores)),
        **(_TINY_SETTINGS if tiny else {}),
    }
