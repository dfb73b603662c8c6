"""Jobs over the same lines share cached rows while they run, and are planned ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from kproxy.spark import jobs
from kproxy.spark.derived.cache import shared_results
from kproxy.spark.jobs import Job
from tests.kproxy.spark.sample_lines import close, request, response, table


@pytest.mark.parametrize("name", ["rebalances", "connections"])
def test_jobs_use_shared_rows_while_they_are_cached(spark: SparkSession, name: str) -> None:
    group_columns = {"group_id": "billing", "member_id": "m-1"}
    lines = table(
        spark,
        request("JoinGroup", at=0, **group_columns),
        response("JoinGroup", at=1, latency_us=1_000_000, generation_id=1, **group_columns),
        close(at=2, by="client", how="fin"),
    )

    def run() -> DataFrame:
        return jobs.find(name).run(lines)

    uncached_rows = run().collect()
    assert len(uncached_rows) == 1
    with shared_results(lines, [name]):
        assert is_cached(run())
        assertDataFrameEqual(run(), uncached_rows)
    assert not is_cached(run())


@pytest.mark.parametrize("name", ["idle-closes", "retries", "rules"])
def test_other_jobs_also_use_shared_rows(spark: SparkSession, name: str) -> None:
    lines = table(spark, request("Fetch", at=0))
    with shared_results(lines, [name]):
        assert is_cached(jobs.find(name).run(lines))


def test_rows_that_no_job_needs_are_not_cached(spark: SparkSession) -> None:
    lines = table(spark, request("Fetch", at=0))
    with shared_results(lines, ["errors", "rebalances"]):
        assert not is_cached(jobs.find("connections").run(lines))


def is_cached(rows: DataFrame) -> bool:
    """Return whether Spark reads some of the rows from its cache."""
    return "InMemoryRelation" in rows._jdf.queryExecution().withCachedData().toString()


def test_next_job_is_planned_ahead_until_the_iterator_is_closed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = table(spark, request("Fetch", at=0))
    planned: list[str] = []
    released, started = threading.Event(), threading.Event()

    def plan(name: str) -> Callable[[DataFrame], DataFrame]:
        def run(lines: DataFrame) -> DataFrame:
            planned.append(name)
            if name == "b":
                started.set()
                assert released.wait(10)
            return lines.select(name)

        return run

    monkeypatch.setattr(jobs, "find", lambda name: Job(name, "", plan(name)))
    planned_jobs = jobs.plan_jobs(["kind", "b", "ts"], lines)
    job, first = next(planned_jobs)
    assert (job.name, first().columns) == ("kind", ["kind"])
    assert started.wait(10)
    _, second = next(planned_jobs)
    released.set()
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        second()
    released.clear()
    planned.clear()

    class Pool(ThreadPoolExecutor):
        """A pool whose shutdown lets the first job continue once the later jobs are cancelled."""

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            released.set()
            super().shutdown(wait)

    monkeypatch.setattr(jobs, "ThreadPoolExecutor", Pool)
    planned_jobs = jobs.plan_jobs(["b", "kind"], lines)
    next(planned_jobs)
    planned_jobs.close()
    assert "kind" not in planned
