"""Request rates and latencies, by API."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.streaming.queries import Span, query

_QUANTILES = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99}
#: Significant digits of a latency; a window has a few thousand different values per API at most.
_DIGITS = 3


@query("requests a second and how long answers took, by API and window")
def latency(lines: DataFrame, span: Span) -> DataFrame:
    """Report the request rate and the latency percentiles of each API in each window.

    State: for each open window and API, its latencies to three digits, with their counts. So percentiles are exact to
    three digits at any load; the maximum is exact.

    Args:
        lines: Rows of TABLE; uses kind, ts, api and latency_us of requests and responses.
        span: `window` and `step`.

    Returns:
        window_start, window_end, api; requests and responses in the window, and per_s, requests per second; p50_us,
        p90_us, p99_us and max_us of the responses in microseconds, null if there are none.
    """
    frames = lines.where(F.col("kind").isin("request", "response") & F.col("api").isNotNull())
    shares = F.array(*map(F.lit, _QUANTILES.values()))
    table = (
        frames.select("ts", "kind", "api", "latency_us", _rounded_latency().alias("rounded_us"))
        .groupBy(span.windows().alias("window"), "api")
        .agg(
            F.count_if(F.col("kind") == "request").alias("requests"),
            F.count_if(F.col("kind") == "response").alias("responses"),
            F.percentile("rounded_us", shares).alias("quantiles"),
            F.max("latency_us").alias("max_us"),
        )
    )
    quantiles = (F.col("quantiles")[position].alias(name) for position, name in enumerate(_QUANTILES))
    return table.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "api",
        "requests",
        "responses",
        span.per_second("requests").alias("per_s"),
        *quantiles,
        "max_us",
    )


def _rounded_latency() -> Column:
    digits = F.floor(F.log10(F.greatest("latency_us", F.lit(1)))) + 1
    unit = F.pow(F.lit(10.0), F.greatest(digits - _DIGITS, F.lit(0)))
    return (F.round(F.col("latency_us") / unit) * unit).cast("long")
