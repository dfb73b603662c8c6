"""R026: producers that send records one by one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.derived.rates import busy_minutes
from kproxy.spark.rules import finding_rows, message, rule

#: At half of a minute's requests, the median is one record.
_HALF = 0.5


@rule("R026", hint="let the producer collect more records (linger.ms, batch.size), and do not flush after each record")
def tiny_batches(lines: DataFrame) -> DataFrame:
    """Minutes with ten or more Produce requests per second with one record per batch, at least half of all requests."""
    produced = lines.where((F.col("kind") == "request") & (F.col("api") == "Produce"))
    found = busy_minutes(produced, (_sum("batches") > 0) & (_sum("records") <= _sum("batches")), share=_HALF)
    text = message("client %s sent %d Produce requests with one record a batch to %s in a minute, of %d", "client",
                "hits", "broker", "frames")  # fmt: skip
    return finding_rows(found, message=text)


def _sum(key: str) -> Column:
    zero = F.lit(0).cast("long")
    return F.aggregate("topics", zero, lambda total, each: total + F.coalesce(each[key], zero))
