"""S031: consumers that fetch again immediately after an empty response."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from kproxy.spark.columns import is_decoded
from kproxy.spark.derived.rates import BusyCondition
from kproxy.spark.rules import BusyRule, busy_rule, message

#: An empty response faster than this (us) did not wait: lines do not have max_wait_ms, which is 500 by default.
_IMMEDIATE_US = 50_000


@busy_rule("S031", hint="leave fetch.max.wait.ms at 500 and fetch.min.bytes at 1, so that the broker waits for records")
def busy_poll() -> BusyRule:
    """Find minutes with ten empty Fetch responses per second on one connection that arrived within 50 ms."""
    is_fetch = is_decoded("Fetch", "ShareFetch")
    is_empty = (
        F.col("errors").isNull() & (F.coalesce(_record_bytes(), F.lit(0)) == 0) & (F.col("latency_us") < _IMMEDIATE_US)
    )
    text = message("client %s got %d immediate empty Fetch responses in a minute from %s", "client", "hits", "broker")
    return BusyRule(BusyCondition(is_fetch, is_empty), text)


def _record_bytes() -> Column:
    zero = F.lit(0).cast("long")
    return F.aggregate("topics", zero, lambda total, topic: total + F.coalesce(topic["bytes"], zero))
