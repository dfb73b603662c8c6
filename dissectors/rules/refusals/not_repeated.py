"""E006: a client that does not repeat a request after a transient error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, DeadlinePassed, RequestReceived, ResponseReceived
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.refusals import Nature
from dissectors.rules import rule
from dissectors.rules.helpers.refused import (
    ReturnedError,
    broker_text,
    client_key,
    client_name,
    refusals,
    targets_text,
    values_text,
)
from dissectors.rules.refusals.gave_up import PRODUCER_STATE_ERRORS
from dissectors.rules.refusals.owners import has_owner_reported
from dissectors.schemas.codes import Error
from dissectors.trackers.connections_by_client import ConnectionsByClient
from dissectors.trackers.elections import SETTLING_TIME, Elections
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: Clients repeat a request within this time (s), even with the longest default backoff.
_REPEAT_TIMEOUT_S = 5
#: A commit may wait for the next interval of auto.commit.interval.ms (s).
_COMMIT_REPEAT_TIMEOUT_S = 8
#: A client that has closed its last connection but is still running repeats the request within this time (s).
_RECONNECT_TIMEOUT_S = 1.5

_COMMITS: Final = ("OffsetCommit", "TxnOffsetCommit")
#: APIs that clients by design do not repeat, repeat immediately, or repeat in another way. Lookups of resources that
#: may not exist yet are repeated only when the resource is needed.
_EXCLUDED_APIS: Final = frozenset((
    "ApiVersions", "Metadata", "DescribeTopicPartitions", "FindCoordinator", "Fetch", "ShareFetch", "ShareAcknowledge",
    "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "SaslHandshake",
    "SaslAuthenticate", "GetTelemetrySubscriptions", "PushTelemetry",
))  # fmt: skip
#: API -> other APIs that a client may use instead.
_ALTERNATIVE_APIS: Final = {
    "SyncGroup": ("JoinGroup",),
    "OffsetFetch": ("JoinGroup",),
    "OffsetCommit": ("JoinGroup",),
    "LeaveGroup": ("JoinGroup",),
    "TxnOffsetCommit": ("JoinGroup", "EndTxn", "InitProducerId"),
    "AddPartitionsToTxn": ("EndTxn", "InitProducerId"),
    "AddOffsetsToTxn": ("EndTxn", "InitProducerId"),
    "Produce": ("EndTxn", "InitProducerId"),
    "EndTxn": ("InitProducerId",),
    "FindCoordinator": ("InitializeShareGroupState",),  # a broker also finds the coordinator in its own metadata
}
#: G011 reports other refusals of commits.
_COORDINATOR_ERRORS: Final = (
    Error.NOT_COORDINATOR,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
)
#: These are transient if the topic was just created, but final if it does not exist.
_MISSING_TOPIC_ERRORS: Final = (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID)
_MAX_CLIENTS = 10_000

#: Client and API.
_Key = tuple[tuple[str, str | None], str]


class _RefusedRequest(NamedTuple):
    """A refused request, when it was refused (ns), and the parts of the message if the client gives up.

    `verdict` begins the message, and `meaning` ends it. `is_client_gone`: the client has closed all its connections
    since then.
    """

    key: _Key
    at: int
    request: ConcernedRequest
    refusal: ReturnedError
    verdict: str
    meaning: str
    is_client_gone: bool = False


class _PendingRefusals:
    """The latest refused request of each client and API, until the client repeats it."""

    def __init__(self) -> None:
        self.by_key: BoundedDict[_Key, _RefusedRequest] = BoundedDict(_MAX_CLIENTS)

    def take(self, key: _Key) -> _RefusedRequest | None:
        """Remove and return a refused request; None if there is none."""
        return self.by_key.pop(key, None)


@rule(
    "E006",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived, ConnectionEnded, DeadlinePassed),
    only=FrameFlags.REFUSED,
    needs=(ConnectionsByClient, Elections),
    complete_for=10,
    since="0.1",
    blame="client",
)
def not_repeated(
    event: RequestReceived | ResponseReceived | ConnectionEnded | DeadlinePassed, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that a client repeats a request after a transient error.

    ## Why it matters
    A coordinator that is loading, or a leader that was just elected, answers with an error for a moment, and expects
    the request again. A client that treats the error as final waits forever for an answer that it never asks for again,
    or its call fails. Reported if the client sends no such request within 5 s (a commit within 8 s, during an election
    15 s); as info if it has closed all its connections before, because then only that one call failed.

    ## Usual cause
    A client that does not know that the error is retriable, or that exhausted its retries. The message says what the
    error means for this API.

    ## Example
    ```story
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [], "error_code": 14}
    +6s
    ```

    ## Look-alikes
    The client sends the request again:
    ```story
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [], "error_code": 14}
    +1s
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": 7}]}]}
    +6s
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-580%3A+Exponential+Backoff+for+Kafka+Clients
    """
    pending = connection.run.state(_PendingRefusals)
    if isinstance(event, ResponseReceived):
        _note_refusal(event, connection, pending)
    elif isinstance(event, RequestReceived):
        _note_request(event.message.api, connection, pending)
    elif isinstance(event, ConnectionEnded):
        _on_connection_ended(event, connection, pending)
    elif _may_wait_for_election(event, connection):
        settled_at = event.about.at + SETTLING_TIME
        connection.set_deadline("E006", event.about.key, by=settled_at, about=event.about)
    elif (refused_request := pending.take(event.about.key)) is not None:
        _unsubscribe(refused_request.key[1], connection, pending)
        if event.about.is_client_gone:
            action = "the client closed its connections without repeating it"
            yield from _problem(refused_request, action, connection, severity=Severity.INFO)
        else:
            waited_s = (event.at - refused_request.at) // SECOND
            yield from _problem(
                refused_request, f"the client has sent no {refused_request.key[1]} for {waited_s} s since", connection
            )


def _note_refusal(event: ResponseReceived, connection: ConnectionState, pending: _PendingRefusals) -> None:
    message, request = event.message, event.request
    if message is None or request is None or message.api in _EXCLUDED_APIS:
        return
    api = message.api
    errors = [
        refusal
        for refusal in refusals(event)
        if refusal.judgement.nature is Nature.TRANSIENT and not _is_excluded(api, refusal)
    ]
    if not errors:
        return
    first_error, key = errors[0], (client_key(connection), api)
    refused_request = _RefusedRequest(
        key,
        event.at,
        ConcernedRequest.of(request),
        first_error,
        f"{api} of {client_name(connection)} was refused with {first_error.name}"
        f"{targets_text([error.target for error in errors], connection)}{values_text(event, first_error)}",
        f"{first_error.judgement.meaning}{broker_text(event, first_error)}",
    )
    pending.by_key[key] = refused_request
    timeout = _COMMIT_REPEAT_TIMEOUT_S if api in _COMMITS else _REPEAT_TIMEOUT_S
    connection.set_deadline("E006", key, by=event.at + timeout * SECOND, about=refused_request)
    for name in (api, *_ALTERNATIVE_APIS.get(api, ())):
        connection.run.subscribe("E006", api=name)


def _may_wait_for_election(event: DeadlinePassed, connection: ConnectionState) -> bool:
    """Whether an election may keep the client from repeating its request: partitions may have no leader yet."""
    refused_request: _RefusedRequest = event.about
    if refused_request.is_client_gone or event.at >= refused_request.at + SETTLING_TIME:
        return False
    return connection.run.state(Elections).may_cause(refused_request.refusal.code, refused_request.at)


def _is_excluded(api: str, refusal: ReturnedError) -> bool:
    """Whether another rule covers clients that give up after this error, or the error may be final."""
    if refusal.code in _MISSING_TOPIC_ERRORS:
        return True
    if api in _COMMITS:
        return refusal.code not in _COORDINATOR_ERRORS
    return api == "Produce" and refusal.code in PRODUCER_STATE_ERRORS


def _note_request(sent_api: str, connection: ConnectionState, pending: _PendingRefusals) -> None:
    client = client_key(connection)
    for api in (sent_api, *(name for name, alternatives in _ALTERNATIVE_APIS.items() if sent_api in alternatives)):
        if pending.take((client, api)) is not None:
            connection.meet_deadline("E006", (client, api))
            _unsubscribe(api, connection, pending)


def _on_connection_ended(event: ConnectionEnded, connection: ConnectionState, pending: _PendingRefusals) -> None:
    """Assume that a client that closes its last connection has shut down, unless it reconnects for its next attempt."""
    if not pending.by_key or event.by == "server":
        return
    client = client_key(connection)
    other_connections = connection.run.state(ConnectionsByClient).others(connection)
    if event.by == "client" and next(other_connections, None) is not None:
        return
    for key, refused_request in list(pending.by_key.items()):
        if key[0] != client:
            continue
        if event.by == "client":
            deadline = event.at + int(_RECONNECT_TIMEOUT_S * SECOND)
            connection.set_deadline("E006", key, by=deadline, about=refused_request._replace(is_client_gone=True))
        else:  # the client is no longer observed
            pending.take(key)
            connection.meet_deadline("E006", key)
            _unsubscribe(key[1], connection, pending)


def _unsubscribe(api: str, connection: ConnectionState, pending: _PendingRefusals) -> None:
    """Unsubscribe from an API and its alternatives, unless another pending refusal needs them."""
    needed = {
        name for _, pending_api in pending.by_key for name in (pending_api, *_ALTERNATIVE_APIS.get(pending_api, ()))
    }
    for name in (api, *_ALTERNATIVE_APIS.get(api, ())):
        if name not in needed:
            connection.run.unsubscribe("E006", api=name)


def _problem(
    refused_request: _RefusedRequest, action: str, connection: ConnectionState, *, severity: Severity | None = None
) -> Iterator[Problem]:
    """Yield the problem, unless another rule has since reported a more specific one."""
    if has_owner_reported(refused_request.refusal, connection, since=refused_request.at):
        return
    if connection.has_problem("E002", since=refused_request.at):
        return
    judgement = refused_request.refusal.judgement
    yield Problem(
        f"{refused_request.verdict}, and {action}: {refused_request.meaning}",
        hint=f"{judgement.change}; the client should repeat the request, because this error may pass",
        blame=judgement.blame,
        severity=severity,
        once_per=(refused_request.key, refused_request.refusal.code, severity),
        request=refused_request.request,
    )
