"""The jobs: each file here registers one, a pure function from the lines of traces to a table.

In a notebook::

    from kproxy.spark import jobs

    jobs.names()
    jobs.find("latency").run(lines)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kproxy.spark.registry import Registered, Registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Takes lines as `kproxy.spark.ingest.schema.TABLE` has them and gives a table in the order to show it. Names of
#: clients, groups, topics and brokers mean something within a cluster only: lines have it in their column `cluster`
#: (`kproxy.spark.derived.clusters.clustered`), or are taken for lines of one.
Run: TypeAlias = "Callable[[DataFrame], DataFrame]"
Job: TypeAlias = Registered[Run]

_REGISTRY: Final = Registry[Run](__name__, __path__)
names, find = _REGISTRY.names, _REGISTRY.find


def job(help_: str) -> Callable[[Run], Run]:
    """Register a job. Its rows are of one cluster each, which is their last column if the lines have it."""

    def register(run: Run) -> Run:
        @wraps(run)
        def run_by_cluster(lines: DataFrame, *args: Any, **options: Any) -> DataFrame:
            # Names of jobs are known where pyspark is not installed.
            from kproxy.spark.derived.clusters import CLUSTER, with_cluster

            table = run(with_cluster(lines), *args, **options)
            if CLUSTER not in lines.columns:
                return table.drop(CLUSTER)
            return table.select(*(name for name in table.columns if name != CLUSTER), CLUSTER)

        return _REGISTRY.add(help_)(run_by_cluster)

    return register


def planned(wanted: Iterable[str], lines: DataFrame) -> Iterator[tuple[Job, Callable[[], DataFrame]]]:
    """Jobs by their names, each with what gives its table; while one is worked out, the plans of the next are made.

    Plans are thousands of small questions to Java, which cost as much as the answers where lines are few.
    """
    pool = ThreadPoolExecutor(1)
    try:
        made = deque((each, pool.submit(each.run, lines)) for each in map(find, wanted))
        while made:  # what Java keeps for a table goes with it
            each, future = made.popleft()
            yield each, future.result
    finally:
        pool.shutdown(cancel_futures=True)
