"""Percentiles over merged lists of values: those that Spark computes of every value."""

from __future__ import annotations

from random import Random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kproxy.spark.derived.percentiles import collected, merged, weighted

SHARES = [0.0, 0.5, 0.9, 0.99, 0.999, 1.0]


def test_percentiles_counts_and_sums_are_those_of_all_values(spark: SparkSession) -> None:
    random = Random(11)
    rows = [(f"g{n % 5}", f"c{n % 7}", round(random.lognormvariate(7, 2))) for n in range(3000)]
    rows += [("same", f"c{n % 3}", 42) for n in range(500)]
    rows += [("odd", "c", value) for value in (None, None, -5, -1, 0, 1, 2, 2**40, 2**40 + 3)]
    rows += [("none", "c", None), ("one", "c", 9)]
    lines = spark.createDataFrame(rows, "by string, cell string, number long").repartition(3)

    cells = collected(lines, ["by", "cell"], "number")
    few = weighted(merged(cells, ["by"]), ["by"], SHARES)
    shares = F.array(*map(F.lit, SHARES))
    found = few.groupBy("by").agg(
        F.percentile("value", shares, F.col("weight")), F.sum(F.when(F.col("is_first"), F.col("rows"))),
        F.sum(F.when(F.col("is_first"), F.col("total"))), F.max("value"),
    )  # fmt: skip
    expected = lines.groupBy("by").agg(F.percentile("number", shares), F.count("*"), F.sum("number"), F.max("number"))
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, expected.collect()))
    of_same = few.where(F.col("by") == "same").select("value", "weight").collect()
    assert [tuple(row) for row in of_same] == [(42, 500)]
