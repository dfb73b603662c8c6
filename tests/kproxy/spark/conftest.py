"""A single small Spark session for all analytics tests, which are not collected without pyspark.

A process has one engine: Spark, or Sail if KPROXY_TEST_ENGINE=embedded, for all tests that do not need Spark.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Commands run by tests must not wait for the creation of a class archive.
os.environ["KPROXY_SPARK_ARCHIVE"] = "no"
#: Failed assertions in this helper module show the compared values, as in test modules.
pytest.register_assert_rewrite("tests.kproxy.spark.spark_processes")
#: The engine of the session.
ENGINE = os.environ.get("KPROXY_TEST_ENGINE", "spark")
#: Test files that need Spark itself: Java, clusters, streams, sources, and table formats and layouts only it writes.
_SPARK_ONLY_FILES = [
    "ingest/test_convert_concurrent.py", "ingest/test_schema.py", "ingest/test_table_storage.py",
    "session/test_java.py", "streaming/test_*.py", "test_elsewhere.py", "test_ingest.py", "test_shared.py",
    "test_source.py",
]  # fmt: skip
if find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py", "*/test_*.py"]
elif ENGINE == "embedded":
    collect_ignore_glob = _SPARK_ONLY_FILES
    # pyspark takes a main module without a file, such as a pytest-xdist worker's, for doctests, which need Spark.
    with pytest.MonkeyPatch.context() as _patch:
        _patch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
        importlib.import_module("pyspark.sql.connect")

#: Files that take longest and run first, so that no test process is still busy long after the others.
_LONGEST = {"test_elsewhere", "test_engines"}
_CAPTURES = Path(__file__).parents[3] / "captures"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker("spark")
    items.sort(key=lambda item: item.path.stem not in _LONGEST)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    if ENGINE == "embedded":
        from kproxy.spark.session.embedded_engine import EmbeddedEngine

        engine = EmbeddedEngine(2 << 30)
        yield engine.connect()
        engine.close()
        return
    from kproxy.spark.session import session

    settings = {
        # Each additional partition adds a task to each of the thirty or so exchanges in a plan.
        "spark.sql.shuffle.partitions": "1",
        # Compiling a plan takes longer than running it on so few lines. Plans are still compiled in tests that run the
        # command, and in the tests of all jobs in test_elsewhere.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # This rule would evaluate hand-made lines during optimization, repeatedly and sequentially.
        "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    }
    spark_session = session("local[2]", short=True, settings=settings)
    yield spark_session
    spark_session.stop()


@pytest.fixture(scope="session")
def captured(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Return the lines of all captures in the repository, as TABLE."""
    paths = [str(path) for path in sorted(_CAPTURES.iterdir()) if path.is_file() and path.suffix != ".md"]
    return convert_files(spark, paths, tmp_path_factory.mktemp("captured"))


def convert_files(spark: SparkSession, paths: list[str], table: Path) -> DataFrame:
    """Return the lines of files, as TABLE."""
    from kproxy.spark.ingest.convert import convert, read_table
    from kproxy.spark.ingest.decode import CaptureOptions
    from kproxy.spark.ingest.inputs import find_files

    convert(spark, find_files(spark, paths), str(table), CaptureOptions())
    return read_table(spark, str(table)).coalesce(1).cache()
