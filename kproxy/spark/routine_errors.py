"""The errors of a line that are failures, as a column."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from kproxy.counting.routine_errors import ROUTINE_API_VERSIONS_ERRORS, ROUTINE_ERRORS


def refusals() -> Column:
    """Return the errors of a line that are not routine; null if the line has no errors."""
    is_versions = F.coalesce(F.col("api") == "ApiVersions", F.lit(False))
    return F.filter(
        "errors",
        lambda error: (
            ~(error["name"].isin(*ROUTINE_ERRORS) | (is_versions & error["name"].isin(*ROUTINE_API_VERSIONS_ERRORS)))
        ),
    )
