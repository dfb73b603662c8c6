"""Errors of a broker that is not ready: it has not executed the request, and clients repeat it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dissectors.schemas.codes import Error

NOT_READY: Final = frozenset(
    {
        Error.LEADER_NOT_AVAILABLE, Error.NOT_LEADER_OR_FOLLOWER, Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR, Error.CONCURRENT_TRANSACTIONS,
    }
)  # fmt: skip


def are_all_not_ready(codes: Iterable[int]) -> bool:
    """Whether the error codes of a response say only that the broker was not ready."""
    errors = set(codes)
    return bool(errors) and errors <= NOT_READY
