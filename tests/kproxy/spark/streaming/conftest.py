"""Stop the queries of each test when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _use_one_partition(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep the state of queries in one partition; stop the queries afterwards."""
    if "spark" not in request.fixturenames:
        yield
        return
    spark: SparkSession = request.getfixturevalue("spark")
    partitions_before = spark.conf.get("spark.sql.shuffle.partitions", "4")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    for query in spark.streams.active:
        query.stop()
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions_before))
