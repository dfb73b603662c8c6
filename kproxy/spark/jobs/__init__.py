"""The jobs: each file here registers one, a pure function from trace lines to a table.

In a notebook::

    from kproxy.spark import jobs

    jobs.names()
    jobs.find("latency").run(lines)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kproxy.spark.registry import RegisteredFunction, Registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Takes lines as TABLE of `kproxy.spark.ingest.schema`, and returns a table in display order. Names of clients, groups,
#: topics and brokers are unique only within a cluster: the column `cluster` of lines identifies it
#: (`kproxy.spark.derived.clusters.clustered`); without the column, all lines belong to one cluster.
Run: TypeAlias = "Callable[[DataFrame], DataFrame]"
Job: TypeAlias = RegisteredFunction[Run]

#: Tables for storage. They are computed only on request, or if tables are written to files.
STORED: Final = frozenset({"facts"})

_REGISTRY: Final = Registry[Run](__name__, __path__)
names, find = _REGISTRY.names, _REGISTRY.find


def job(help_: str) -> Callable[[Run], Run]:
    """Register a job. Each row of its table belongs to one cluster, named in the last column if the lines name it."""

    def register(run: Run) -> Run:
        @wraps(run)
        def run_by_cluster(lines: DataFrame, *args: Any, **options: Any) -> DataFrame:
            # The names of jobs are available without pyspark.
            from kproxy.spark.derived.clusters import CLUSTER, with_cluster

            table = run(with_cluster(lines), *args, **options)
            if CLUSTER not in lines.columns:
                return table.drop(CLUSTER)
            return table.select(*(name for name in table.columns if name != CLUSTER), CLUSTER)

        return _REGISTRY.add(help_)(run_by_cluster)

    return register


def plan_jobs(
    job_names: Iterable[str], lines: DataFrame, overrides: Mapping[str, Callable[[], DataFrame]] = MappingProxyType({})
) -> Iterator[tuple[Job, Callable[[], DataFrame]]]:
    """Yield the named jobs, each with a function that returns its table; while a job runs, the next ones are planned.

    A job in `overrides` is run by the function given there, with other options or lines.

    Planning makes thousands of small calls to Java, which cost as much as the job itself if there are few lines.
    """
    pool = ThreadPoolExecutor(1)
    try:
        running = deque(
            (job, pool.submit(overrides.get(job.name, partial(job.run, lines)))) for job in map(find, job_names)
        )
        while running:  # releases what Java holds for a table
            job, future = running.popleft()
            yield job, future.result
    finally:
        pool.shutdown(cancel_futures=True)
