"""Caches intermediate results that several jobs over the same lines need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame

from kproxy.spark.derived.clusters import with_cluster
from kproxy.spark.derived.connections import connections
from kproxy.spark.derived.groups import group_events

#: The results, with the jobs that use them: planning a result that no job needs takes a tenth of a small run.
_USED_BY: Final[dict[Callable[[DataFrame], DataFrame], frozenset[str]]] = {
    group_events: frozenset({"rebalances"}),
    connections: frozenset({"connections", "idle-closes", "retries", "rules"}),
}


@contextmanager
def shared_results(lines: DataFrame, jobs: Iterable[str]) -> Iterator[None]:
    """Let the given jobs over `lines` share results within the context; Spark itself recognises them in the plans.

    A result is computed when it is first needed, and kept in memory if possible, otherwise on disk.
    """
    job_names = frozenset(jobs)
    cached = [compute(with_cluster(lines)).persist() for compute, users in _USED_BY.items() if job_names & users]
    try:
        yield
    finally:
        for frame in cached:
            frame.unpersist()
