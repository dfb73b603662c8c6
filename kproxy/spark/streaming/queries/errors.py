"""Errors in responses, by API and client."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dissectors import schemas
from kproxy.spark.columns import array_or_empty, client_name, constant_map, is_decoded
from kproxy.spark.streaming.queries import Span, query

#: More bins than there are error codes, so that each code has its own.
_BINS = 256


@query("errors by API, client and window, and their share of the responses")
def errors(lines: DataFrame, span: Span) -> DataFrame:
    """Report how many responses of each API to each client carried each error, in each window.

    State: for each open window, API and client, a count of all responses and one count per error code, at most 256; if
    a client has more codes than that, some are counted together.

    Args:
        lines: Rows of TABLE; uses kind, ts, api, client_id, client, errors and not_decoded of responses.
        span: `window` and `step`.

    Returns:
        window_start, window_end, api, client (its host if it has no client id), error and code; responses, the number
        that carry the error, however many times, and share, their share (0 to 1) of all decoded responses. Only errors
        have rows.
    """
    codes = F.array_distinct(F.transform(array_or_empty(F.col("errors")), lambda error: error["code"].cast("double")))
    # One aggregate must count by code, because streams cannot compare rows, so it is a histogram whose bins are the
    # codes. The null added to a response's codes counts the response itself.
    table = (
        lines.where(is_decoded() & F.col("api").isNotNull())
        .select("ts", "api", client_name().alias("client"), F.explode(F.array_append(codes, F.lit(None))).alias("code"))
        .groupBy(span.windows().alias("window"), "api", "client")
        .agg(
            F.count_if(F.col("code").isNull()).alias("all"),
            F.histogram_numeric("code", F.lit(_BINS)).alias("bins"),
        )
        .select("window", "api", "client", "all", F.explode(_counts(F.col("bins"))).alias("found"))
    )
    name = constant_map({error.code: error.name for error in schemas.errors()})[F.col("found.code").cast("long")]
    return table.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "api",
        "client",
        F.coalesce(name, F.concat(F.lit("UNKNOWN_ERROR_"), F.col("found.code"))).alias("error"),
        "found.code",
        "found.responses",
        (F.col("found.responses") / F.col("all")).alias("share"),
    )


def _counts(bins: Column) -> Column:
    """Return the codes with their counts; a code may be in several bins, which were merged as weighted means."""

    def code_of(bin_: Column) -> Column:
        return F.round(bin_["x"]).cast("int")

    def count_of(code: Column) -> Column:
        bins_of_code = F.filter(bins, lambda bin_: code_of(bin_) == code)
        return F.aggregate(bins_of_code, F.lit(0.0), lambda total, bin_: total + bin_["y"]).cast("long")

    codes = F.array_distinct(F.transform(array_or_empty(bins), lambda bin_: code_of(bin_)))
    return F.transform(codes, lambda code: F.struct(code.alias("code"), count_of(code).alias("responses")))
