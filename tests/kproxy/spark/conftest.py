"""One small session for all tests of Spark; without pyspark there are none."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.kproxy.spark.elsewhere import Local

if find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py", "*/test_*.py"]

_CAPTURES = Path(__file__).parents[3] / "captures"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from kproxy.spark.session import session

    # A partition more is a task more for each of some thirty exchanges of a plan.
    made = session("local[2]", short=True, settings={"spark.sql.shuffle.partitions": "1"})
    yield made
    made.stop()


@pytest.fixture(scope="session")
def captured(spark: SparkSession) -> DataFrame:
    """The lines of all captures of the repository, as TABLE."""
    from kproxy.spark.reading.convert import dated
    from kproxy.spark.reading.decode import Options
    from kproxy.spark.reading.files import read_files
    from kproxy.spark.reading.inputs import find_files

    return dated(read_files(spark, find_files(spark, [str(_CAPTURES)]), Options())).coalesce(1).cache()


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces and captures to convert elsewhere."""
    from tests.kproxy.spark.elsewhere import write_inputs

    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="session")
def local(spark: SparkSession, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Local:
    """What this process makes of them."""
    from tests.kproxy.spark.elsewhere import local_of

    return local_of(spark, inputs, tmp_path_factory.mktemp("local") / "table")
