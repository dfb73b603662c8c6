"""R026: producers that send records one by one."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from kproxy.spark.derived.rates import BusyCondition
from kproxy.spark.rules import BusyRule, busy_rule, message

#: If half of the requests in a minute have one record per batch, the median is one record.
_MIN_SHARE = 0.5


@busy_rule(
    "R026", hint="let the producer collect more records (linger.ms, batch.size), and do not flush after each record"
)
def tiny_batches() -> BusyRule:
    """Find minutes with ten or more one-record-a-batch Produce requests per second, at least half of all of them."""
    is_produce = (F.col("kind") == "request") & (F.col("api") == "Produce")
    is_single = (_sum_over_topics("batches") > 0) & (_sum_over_topics("records") <= _sum_over_topics("batches"))
    text = message("client %s sent %d Produce requests with one record a batch to %s in a minute, of %d", "client",
                "hits", "broker", "frames")  # fmt: skip
    return BusyRule(BusyCondition(is_produce, is_single, share=_MIN_SHARE), text)


def _sum_over_topics(key: str) -> Column:
    zero = F.lit(0).cast("long")
    return F.aggregate("topics", zero, lambda total, topic: total + F.coalesce(topic[key], zero))
