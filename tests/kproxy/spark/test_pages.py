"""docs/spark.md lists every job, and docs/tables.md lists all columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kproxy.outputs import doc_tables
from kproxy.spark import jobs, pages
from kproxy.spark.ingest.schema import TABLE
from kproxy.spark.table_columns import described
from tests.kproxy.spark.files import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UPDATE = "python -m kproxy.spark.pages docs/spark.md"
#: Columns with numbers that identify something and therefore have no unit.
_IDENTIFIERS: Final = {
    "producer_id",
    "producer_epoch",
    "version",
    "api_version",
    "code",
    "correlation_id",
    "generation",
    "partition",
}
#: Allowed units by the suffix of a column name.
_UNITS: Final = {
    "_us": {"µs"},
    "bytes": {"bytes", "bytes/s"},
    "share": {"0 to 1"},
    "_at": {"UTC"},
    "_per_s": {"1/s"},
}


def test_documentation_matches_the_code() -> None:
    document = (REPOSITORY / "docs/spark.md").read_text()
    assert doc_tables.replace_table(document, "jobs", pages.markdown()) == document, _UPDATE
    assert (REPOSITORY / "docs" / pages.TABLES).read_text() == pages.columns_page(), _UPDATE


@pytest.mark.parametrize("name", jobs.names())
def test_every_column_has_a_type_a_unit_and_a_description(name: str, spark: SparkSession) -> None:
    job = jobs.find(name)
    columns = described(job).columns
    assert [(column.name, column.type) for column in columns] == job.run(spark.createDataFrame([], TABLE)).dtypes
    for column in columns:
        needs_unit = column.type in ("int", "bigint", "double", "timestamp") and column.name not in _IDENTIFIERS
        assert bool(column.unit) == needs_unit, column
    for ending, units in _UNITS.items():
        assert {column.unit for column in columns if column.name.endswith(ending)} <= units


def test_docstring_with_an_untyped_column_raises_an_error() -> None:
    def run(lines: DataFrame) -> DataFrame:
        """Report nothing.

        Args:
            lines: Rows.

        Returns:
            One row.

            - x: no type
        """
        return lines

    with pytest.raises(ValueError, match="the docstring of x must describe"):
        described(jobs.Job("x", "nothing", run))
