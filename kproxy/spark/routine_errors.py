"""Errors that are part of normal operation, which a report does not count as failures.

- MEMBER_ID_REQUIRED gives a new member its id (KIP-394), in response to each first JoinGroup.
- REBALANCE_IN_PROGRESS tells a member to rejoin.
- UNSUPPORTED_VERSION in response to ApiVersions: the client retries with a version that the broker names (KIP-511). In
  response to another API it is a failure.

Other errors that clients handle by themselves do count, because something changed or is missing: NOT_COORDINATOR,
NOT_LEADER_OR_FOLLOWER and COORDINATOR_NOT_AVAILABLE (a broker restarted or a partition moved; a burst of them matters),
FETCH_SESSION_ID_NOT_FOUND (the broker has too few fetch sessions, or restarted), UNKNOWN_TOPIC_OR_PARTITION (a topic is
missing, or does not exist yet).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from dissectors.groups import explanations
from dissectors.schemas.codes import Error

#: Errors that are routine in responses of every API, and only in those of ApiVersions.
ROUTINE_ERRORS: Final = frozenset({explanations.REJOIN, explanations.NEW_MEMBER_ID})
ROUTINE_API_VERSIONS_ERRORS: Final = frozenset({Error.UNSUPPORTED_VERSION.name})


def is_routine(api: str | None, error: str | None) -> bool:
    """Whether an error is routine in responses of an API."""
    return error in ROUTINE_ERRORS or (api == "ApiVersions" and error in ROUTINE_API_VERSIONS_ERRORS)


def refusals() -> Column:
    """Return the errors of a line that are not routine; null if the line has no errors."""
    is_versions = F.coalesce(F.col("api") == "ApiVersions", F.lit(False))
    return F.filter(
        "errors",
        lambda error: (
            ~(error["name"].isin(*ROUTINE_ERRORS) | (is_versions & error["name"].isin(*ROUTINE_API_VERSIONS_ERRORS)))
        ),
    )
