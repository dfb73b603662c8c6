"""Exact percentiles of many groups, for a fraction of the cost of counting every value in each of them.

Values are collected once, by bands of similar size. Groups then share these lists. In each group, only the bands that
a percentile falls into matter: any value of another band can stand for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: Bands for each doubling of the value.
_BANDS: Final = 16


def collected(rows: DataFrame, by: Sequence[str], value: str, *more: Column) -> DataFrame:
    """Collect the values of rows by `by` and band.

    Args:
        rows: Any rows.
        by: Columns of rows. Each group of `weighted` is a union of what they distinguish.
        value: A column of whole numbers or null.
        more: Further aggregates.

    Returns:
        by, `more`, and the columns for `merged`: band, rows (their number), total (the sum of values), least, most and
        part (the values).
    """
    number = F.col(value)
    band = F.when(number.isNotNull(), F.floor(F.log2(F.greatest(number, F.lit(1))) * _BANDS))
    # By task too: a list is then never larger than what one task reads.
    found = rows.groupBy(*by, band.alias("band"), F.spark_partition_id().alias("task")).agg(
        F.count("*").alias("rows"),
        F.sum(number).alias("total"),
        F.min(number).alias("least"),
        F.max(number).alias("most"),
        F.collect_list(number).alias("values"),
        *more,
    )
    values = F.when(F.col("least") == F.col("most"), F.slice("values", 1, 1)).otherwise(F.col("values"))
    return found.withColumn("part", F.struct("rows", values.alias("values"))).drop("task", "values")


def merged(cells: DataFrame, by: Sequence[str], *more: Column) -> DataFrame:
    """Merge rows of `collected` by other columns; returns by, `more`, and the columns for `weighted`."""
    return cells.groupBy(*by, "band").agg(
        F.sum("rows").alias("rows"),
        F.sum("total").alias("total"),
        F.min("least").alias("least"),
        F.max("most").alias("most"),
        F.collect_list("part").alias("parts"),
        *more,
    )


def weighted(bands: DataFrame, by: Sequence[str], shares: Iterable[float]) -> DataFrame:
    """Return few values of each group with weights that give the same percentiles as all of its values.

    Args:
        bands: Rows of `merged`.
        by: Its columns, which identify a group.
        shares: The percentiles (0 to 1).

    Returns:
        The rows, each for several values: value, with the group's largest among them, and its weight, for
        `percentile(value, shares, weight)`; null without values. `is_first` is true for one of the rows of a band, for
        sums.
    """
    group = Window.partitionBy(*by)
    known = F.when(F.col("band").isNotNull(), F.col("rows"))
    last = F.sum(known).over(group) - 1
    placed = bands.withColumns({"end": F.sum(known).over(group.orderBy("band")), "last": last})
    begin, end = F.col("end") - F.col("rows"), F.col("end")
    # Spark interpolates between the values at both neighbours of a percentile's position.
    hit = reduce(or_, ((begin <= F.ceil(F.col("last") * p)) & (end > F.floor(F.col("last") * p)) for p in shares))
    needs_all = F.col("band").isNotNull() & (F.col("least") < F.col("most")) & hit
    each = F.flatten(F.transform("parts", _weighed))
    one = F.array(F.struct(F.col("most").alias("value"), F.col("rows").alias("weight")))
    found = placed.withColumn("each", F.when(needs_all, each).otherwise(one)).drop("parts", "end", "last")
    exploded = found.select("*", F.posexplode("each").alias("place", "one")).drop("each")
    return exploded.select("*", "one.*", (F.col("place") == 0).alias("is_first")).drop("one", "place")


def _weighed(part: Column) -> Column:
    """The values of a part of a band, which has one if all are equal."""
    weight = F.when(F.size(part["values"]) == 1, part["rows"]).otherwise(1)
    return F.transform(part["values"], lambda value: F.struct(value.alias("value"), weight.alias("weight")))
