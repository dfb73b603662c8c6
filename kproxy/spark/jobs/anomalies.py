"""What is unusual: hours that differ from the same hour of other days."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name, is_decoded, maybe, view
from kproxy.spark.jobs import job
from kproxy.spark.words import amount, duration, text

_HOUR, _DAY = 3600, 86_400
#: Other days that an hour must have, and seconds of it that were watched, to say what is usual.
_LEAST_DAYS = 5
_LEAST_SECONDS = 600
#: Responses that a share or a 99th percentile must be of.
_LEAST_RESPONSES = 100
#: How many deviations are unusual. Five of a tenth: what differs by less than half of the usual is never told.
_UNUSUAL = 5
_TENTH = 0.1
#: Smaller deviations of a latency are noise of clocks and schedulers.
_LEAST_US = 200
#: The standard deviation of a normal distribution in median absolute deviations.
_MAD = 1.4826

_WHAT = ("cluster", "by", "api", "value")


@job("hours in which rate, errors or latency are not what they are in the same hour of other days")
def anomalies(lines: DataFrame) -> DataFrame:
    """How each hour differs from the same hour (UTC) of other days.

    The usual is their median, which does not mind that one of them was unusual too. Nothing is said where an hour has
    fewer than five other days, was watched for less than ten minutes, or, of errors and latency, has fewer than 100
    responses. What was seen before counts with a rate of 0 in hours in which only others were seen; days before it was
    first seen do not count.

    Args:
        lines: Rows of TABLE; uses ts of all lines, and kind, api, client_id, client, server, latency_us, errors and
            not_decoded of requests and responses.

    Returns:
        A row for each `api` (`by` is ``api``, `value` null), client (its host if it has no client id) and broker (`by`
        says which it is, `value` its name) and hour that begins at `since`, in which a `measure` is unusual: ``rate``
        (requests a second, higher or lower), ``errors`` (share of decoded responses with an error, 0 to 1, higher) or
        ``p99`` (latency in microseconds, higher). `actual` is what it was, `usual` the median of the `days` others,
        `deviation` how many typical deviations lie between them: theirs (by median), or what chance alone makes of so
        few requests, or a tenth of the usual, whichever is largest. `sentence` says it in words. Most unusual first.
    """
    others = F.transform(F.filter("days", lambda day: day["hour"] != F.col("day.hour")), lambda day: day["actual"])
    compared = (
        _measured(_filled(_hourly(lines), lines))
        .groupBy(*_WHAT, "measure", F.pmod("day.hour", F.lit(_DAY)).alias("time"))
        .agg(F.collect_list("day").alias("days"))
        .where(F.size("days") > _LEAST_DAYS)
        .select(*_WHAT, "measure", "days", F.explode("days").alias("day"))
        .select(*_WHAT, "measure", "day.*", others.alias("others"))
        .withColumn("usual", _median(F.col("others")))
        .withColumn("spread", _median(F.transform("others", lambda other: F.abs(other - F.col("usual")))) * _MAD)
    )
    deviation = (F.col("actual") - F.col("usual")) / F.greatest("spread", _noise())
    is_unusual = (deviation >= _UNUSUAL) | ((F.col("measure") == "rate") & (deviation <= -_UNUSUAL))
    table = compared.where(is_unusual).select(
        *_WHAT,
        F.timestamp_seconds("hour").alias("since"),
        "measure",
        "actual",
        "usual",
        deviation.alias("deviation"),
        F.size("others").alias("days"),
        _sentence().alias("sentence"),
    )
    return table.orderBy(F.desc(F.abs("deviation")), "since", *_WHAT, "measure")


def _hourly(lines: DataFrame) -> DataFrame:
    """A row for each thing and hour (seconds since 1970) that it was seen in."""
    views = F.array(
        view("api", F.lit(None).cast("string")), view("client", client_name()), view("broker", F.col("server"))
    )
    read = F.when(is_decoded(), F.size(maybe(F.col("errors"))) > 0)
    frames = lines.where(F.col("kind").isin("request", "response") & F.col("api").isNotNull())
    return (
        frames.select(
            "cluster",
            "kind",
            "api",
            "latency_us",
            read.alias("failed"),
            _hour().alias("hour"),
            F.explode(views).alias("view"),
        )
        .groupBy("cluster", "view.by", "api", "view.value", "hour")
        .agg(
            F.count_if(F.col("kind") == "request").alias("requests"),
            F.count("failed").alias("responses"),
            F.count_if("failed").alias("failed"),
            F.count("latency_us").alias("answered"),
            F.percentile("latency_us", 0.99).alias("p99"),
        )
    )


def _filled(hourly: DataFrame, lines: DataFrame) -> DataFrame:
    """With the hours since it was first seen in which only others were; seconds of an hour that were watched."""
    watched = (
        lines.where(F.col("ts").isNotNull())
        .groupBy("cluster")
        .agg(
            F.collect_set(_hour()).alias("all_hours"),
            (F.min(F.unix_micros("ts")) / 1_000_000).alias("begin"),
            (F.max(F.unix_micros("ts")) / 1_000_000).alias("end"),
        )
    )
    facts = {"requests": 0, "responses": 0, "failed": 0, "answered": 0, "p99": None}
    seen = F.transform("hours", lambda each: each["hour"])
    silent = F.filter(F.array_except("all_hours", seen), lambda hour: hour > F.array_min(seen))

    def nothing(hour: Column) -> Column:
        none = (F.lit(value).cast("double" if name == "p99" else "long").alias(name) for name, value in facts.items())
        return F.struct(hour.alias("hour"), *none)

    hour = F.col("hour")
    seconds = F.least(hour + _HOUR, F.col("end")) - F.greatest(hour, F.col("begin"))
    return (
        hourly.groupBy(*_WHAT)
        .agg(F.collect_list(F.struct("hour", *facts)).alias("hours"))
        .join(F.broadcast(watched), "cluster")
        .select(*_WHAT, "begin", "end", F.explode(F.concat("hours", F.transform(silent, nothing))).alias("each"))
        .select(*_WHAT, "each.*", "begin", "end")
        .withColumn("seconds", seconds)
        .where(F.col("seconds") >= _LEAST_SECONDS)
    )


def _measured(hours: DataFrame) -> DataFrame:
    """A row for each measure that an hour has enough for: `day` has its hour, what it was, and of how much."""

    def measure(name: str, actual: Column, amount: Column, least: int) -> Column:
        day = F.struct(F.col("hour"), actual.cast("double").alias("actual"), amount.cast("double").alias("amount"))
        return F.struct(F.lit(name).alias("measure"), F.when(amount >= least, day).alias("day"))

    rate = measure("rate", F.col("requests") / F.col("seconds"), F.col("seconds"), _LEAST_SECONDS)
    share = measure("errors", F.try_divide("failed", "responses"), F.col("responses"), _LEAST_RESPONSES)
    p99 = measure("p99", F.col("p99"), F.col("answered"), _LEAST_RESPONSES)
    each = hours.select(*_WHAT, F.explode(F.array(rate, share, p99)).alias("each"))
    return each.select(*_WHAT, "each.*").where(F.col("day").isNotNull())


def _noise() -> Column:
    """The least deviation to count in: what chance alone makes of so few, and a tenth of what is usual."""
    usual, amount, measure = F.col("usual"), F.col("amount"), F.col("measure")
    counted = F.sqrt(F.greatest(usual * amount, F.lit(1.0))) / amount
    drawn = F.greatest(F.sqrt(usual * (1 - usual) / amount), 1 / amount)
    return F.when(measure == "errors", drawn).otherwise(
        F.greatest(usual * _TENTH, F.when(measure == "rate", counted).otherwise(_LEAST_US))
    )


def _sentence() -> Column:
    actual, usual, measure = F.col("actual"), F.col("usual"), F.col("measure")
    factor = F.when((actual > 0) & (usual > 0), text(" (", amount(actual / usual), " times)")).otherwise("")
    said = (
        F.when((measure == "rate") & (actual == 0), text("no requests, usually ", amount(usual), " a second"))
        .when(measure == "rate", text(amount(actual), " requests/s, usually ", amount(usual)))
        .when(
            measure == "errors",
            F.format_string("errors in %.2f %% of responses, usually in %.2f %%", actual * 100, usual * 100),
        )
        .otherwise(text("p99 is ", duration(actual), ", usually ", duration(usual)))
    )
    return text(said, factor)


def _hour() -> Column:
    """When the hour of a line began, in seconds since 1970."""
    at = F.unix_seconds("ts")
    return at - F.pmod(at, F.lit(_HOUR))


def _median(numbers: Column) -> Column:
    """Of an array that is not empty."""
    ordered, size = F.array_sort(numbers), F.size(numbers)
    return (F.get(ordered, F.floor((size - 1) / 2).cast("int")) + F.get(ordered, F.floor(size / 2).cast("int"))) / 2
