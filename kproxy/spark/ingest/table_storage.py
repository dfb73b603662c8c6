"""Stores the rows of a table in its format; writing a batch again replaces it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kproxy.spark.ingest.schema import TABLE

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
_BY_BATCH = ("batch", "date", "hour")
#: Columns added by a later release are added to the table.
_MERGE = {"mergeSchema": "true", "check-ordering": "false"}


def write_batch(rows: DataFrame, table: str, form: str, number: int) -> None:
    """Write rows of TABLE as a batch; atomically in Delta and Iceberg, whose own readers may also see it."""
    if form == PARQUET:
        padded = rows.withColumn("hour", F.lpad(F.col("hour").cast("string"), 2, "0"))  # as in a trace's path
        padded.write.mode("overwrite").partitionBy("date", "hour").parquet(f"{table}/batch={number}")
        return
    rows = rows.withColumn("batch", F.lit(number))
    if form == DELTA:
        writer = rows.write.format(DELTA).mode("overwrite").options(replaceWhere=f"batch = {number}", **_MERGE)
        writer.partitionBy(*_BY_BATCH).save(table)
    else:
        name = _iceberg_name(rows.sparkSession, table)
        rows.writeTo(name).options(**_MERGE).overwrite(F.col("batch") == number)


def read_batches(spark: SparkSession, table: str, form: str, numbers: Sequence[int]) -> DataFrame:
    """Return the rows of the batches with these numbers, as TABLE: lines and corrupt texts."""
    if form == PARQUET:
        paths = [f"{table}/batch={number}" for number in numbers]
        return spark.read.schema(TABLE).option("basePath", table).parquet(*paths).select(*TABLE.names)
    rows = spark.read.format(DELTA).load(table) if form == DELTA else spark.table(_iceberg_name(spark, table))
    return rows.where(F.col("batch").isin(*numbers)).to(TABLE)


def _iceberg_name(spark: SparkSession, table: str) -> str:
    """Return the session's name for the Iceberg table in a directory; create the table if needed.

    Iceberg needs a catalog to write to directories; it is configured for the directory that contains the table.
    """
    path = table if urlsplit(table).scheme else str(Path(table).absolute())
    warehouse, _, name = path.rstrip("/").rpartition("/")
    catalog = f"kproxy_{sha256(warehouse.encode()).hexdigest()[:16]}"
    setting_prefix = f"spark.sql.catalog.{catalog}"
    spark.conf.set(setting_prefix, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{setting_prefix}.type", "hadoop")
    spark.conf.set(f"{setting_prefix}.warehouse", warehouse)
    quoted_name = f"{catalog}.`{name.replace('`', '``')}`"
    if not spark.catalog.tableExists(quoted_name):
        schema = T.StructType([*TABLE.fields, T.StructField("batch", T.IntegerType())])
        writer = spark.createDataFrame([], schema).writeTo(quoted_name).using(ICEBERG)
        writer = writer.tableProperty("write.spark.accept-any-schema", "true")
        writer.partitionedBy(*map(F.col, _BY_BATCH)).create()
    return quoted_name
