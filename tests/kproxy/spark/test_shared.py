"""Jobs that share what they have in common say the same, by what was kept."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from kproxy.spark import jobs
from kproxy.spark.derived.shared import shared
from tests.kproxy.spark.made import close, request, response, table


@pytest.mark.parametrize("name", ["rebalances", "connections"])
def test_jobs_find_what_is_kept_and_only_while_it_is(spark: SparkSession, name: str) -> None:
    of_group = {"group_id": "billing", "member_id": "m-1"}
    lines = table(
        spark,
        request("JoinGroup", at=0, **of_group),
        response("JoinGroup", at=1, latency_us=1_000_000, generation_id=1, **of_group),
        close(at=2, by="client", how="fin"),
    )

    def run() -> DataFrame:
        return jobs.find(name).run(lines)

    alone = run().collect()
    assert len(alone) == 1
    with shared(lines):
        assert is_kept(run())
        assertDataFrameEqual(run(), alone)
    assert not is_kept(run())


def is_kept(rows: DataFrame) -> bool:
    """Whether Spark takes a part of them from what it has kept."""
    return "InMemoryRelation" in rows._jdf.queryExecution().withCachedData().toString()
