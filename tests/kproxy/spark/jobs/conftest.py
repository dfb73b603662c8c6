"""Lines that are used in the tests of several jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kproxy.capture_results import DATA
from tests.kproxy.spark.conftest import convert_files

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
def real(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Return the traffic of real clients with real brokers, as TABLE."""
    paths = [str(DATA / "pcap" / f"{name}.pcap.gz") for name in CLIENTS]
    return convert_files(spark, paths, tmp_path_factory.mktemp("real"))
