"""Kafka's error codes by name, and the exception that carries one."""

from __future__ import annotations

from dissectors.schemas.codes import Error as Error  # re-exported


class ApiError(Exception):
    """Rejects a request, or part of it, with an error code and an optional message."""

    def __init__(self, error: Error, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message or message_of(error)


def message_of(error: Error) -> str | None:
    """Return the message that Kafka sends with an error by default; None if it is not listed here."""
    return _MESSAGES.get(error)


#: Source: Errors.java.
_MESSAGES = {
    Error.NONE: "NONE",
    Error.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
    Error.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details.",
    Error.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    Error.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    Error.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    Error.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Error.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    Error.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    Error.KAFKA_STORAGE_ERROR: "Disk error when trying to access log file on the disk.",
    Error.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    Error.NOT_COORDINATOR: "This is not the correct coordinator.",
}
