"""docs/spark.md has a row for each job, as it is."""

from __future__ import annotations

from kproxy.outputs import doc_tables
from kproxy.spark import pages
from tests.kproxy.spark.files import REPOSITORY


def test_the_table_of_jobs_is_that_of_the_code() -> None:
    document = (REPOSITORY / "docs/spark.md").read_text()
    assert doc_tables.with_table(document, "jobs", pages.markdown()) == document, (
        "python -m kproxy.spark.pages docs/spark.md"
    )
