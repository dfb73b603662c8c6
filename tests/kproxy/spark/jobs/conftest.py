"""More lines that several tests of jobs take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kproxy.captured import DATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLIENTS = (
    "confluent-3.9.1",
    "java-3.9.1",
    "kafka-python-4.3.1",
    "kcat-fallback-0.8-0.10-3.9.1",
    "sarama_v0.11.0.0-3.9.1",
)


@pytest.fixture(scope="session")
def real(spark: SparkSession) -> DataFrame:
    """Sessions of real clients with real brokers, as TABLE."""
    from kproxy.spark.ingest.convert import dated
    from kproxy.spark.ingest.decode import CaptureOptions
    from kproxy.spark.ingest.files import read_files
    from kproxy.spark.ingest.inputs import find_files

    paths = [str(DATA / "pcap" / f"{name}.pcap.gz") for name in CLIENTS]
    return dated(read_files(spark, find_files(spark, paths), CaptureOptions())).coalesce(1).cache()
