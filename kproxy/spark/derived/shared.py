"""What several jobs ask of the same lines, worked out once for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame

from kproxy.spark.derived.clusters import with_cluster
from kproxy.spark.derived.connections import connections
from kproxy.spark.derived.groups import group_events


@contextmanager
def shared(lines: DataFrame) -> Iterator[None]:
    """While it lasts, jobs over `lines` share what they have in common, which Spark finds in their plans by itself.

    It is worked out when the first of them needs it, and kept in memory as far as there is room, else on disk.
    """
    kept = [made(with_cluster(lines)).persist() for made in (group_events, connections)]
    try:
        yield
    finally:
        for each in kept:
            each.unpersist()
