"""Caches intermediate results that several jobs over the same lines need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame

from kproxy.spark.derived.clusters import with_cluster
from kproxy.spark.derived.connections import connections
from kproxy.spark.derived.groups import group_events


@contextmanager
def shared(lines: DataFrame) -> Iterator[None]:
    """While the context lasts, jobs over `lines` share common results; Spark finds these in their plans by itself.

    A result is computed when it is first needed, and kept in memory if possible, else on disk.
    """
    kept = [made(with_cluster(lines)).persist() for made in (group_events, connections)]
    try:
        yield
    finally:
        for each in kept:
            each.unpersist()
