"""E005: a producer that stops, or ends, after an error that other clients recover from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, DeadlinePassed, RequestReceived, ResponseReceived
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.refused import ReturnedError, broker_text, client_key, client_name, refusals, targets_text
from dissectors.schemas.codes import Error
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_APIS = ("Produce", "InitProducerId")
#: Errors in the producer's state at this broker: no other broker accepts the batch, and it has not been stored.
PRODUCER_STATE_ERRORS = (
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Error.UNKNOWN_PRODUCER_ID,
    Error.INVALID_PRODUCER_ID_MAPPING,
    Error.INVALID_PRODUCER_EPOCH,
)
#: A producer has given up if it has not retried within this time (s): it would retry within milliseconds.
_GAVE_UP_AFTER = 5
_MAX_CLIENTS = 10_000

_Key = tuple[str, str | None]


class _RefusedClients:
    """The clients that have sent nothing since a batch was refused, and the connection of the batch."""

    def __init__(self) -> None:
        self.clients: BoundedDict[_Key, str] = BoundedDict(_MAX_CLIENTS)


class _LastProduce(NamedTuple):
    """A refused Produce: the client, the refusal as text, the error, and the request."""

    client: str
    refusal_text: str
    error: str
    request: ConcernedRequest


@rule(
    "E005",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived, ConnectionEnded, DeadlinePassed),
    apis=_APIS,
    only=FrameFlags.REFUSED,
    complete_for=10,
    since="0.1",
    blame="client",
)
def gave_up(
    event: RequestReceived | ResponseReceived | ConnectionEnded | DeadlinePassed, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that a producer continues after its sequence or its id was refused.

    ## Why it matters
    An idempotent producer may retry the batch, or get a new epoch with InitProducerId. Many clients treat the error as
    fatal instead: each further record fails or waits in its buffer until the application creates a new producer, or
    the application ends, and the batch is lost. Reported if neither Produce nor InitProducerId follows within 5
    seconds.

    ## Usual cause
    An application that ignores fatal errors of its producer, after a broker lost the producer's state (an unclean
    election, deleted records) or because a broker does not count sequences as Kafka does.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 45, "base_offset": -1}]}]}
    +6s
    ```

    ## Look-alikes
    The producer sends the batch again:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 45, "base_offset": -1}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 3}]}]}
    +6s
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-360%3A+Improve+reliability+of+idempotent+producer
    https://github.com/confluentinc/librdkafka/blob/master/INTRODUCTION.md#idempotent-producer
    """
    clients, key = connection.run.state(_RefusedClients).clients, client_key(connection)
    if isinstance(event, ResponseReceived):
        errors = [refusal for refusal in refusals(event) if refusal.code in PRODUCER_STATE_ERRORS]
        if errors and event.message is not None and event.message.api == "Produce":
            clients[key] = connection.connection_id
            connection.set_deadline(
                "E005", key, by=event.at + _GAVE_UP_AFTER * SECOND, about=_last_produce(event, errors, connection)
            )
            for api in _APIS:
                connection.run.subscribe("E005", api=api)
        return
    if isinstance(event, ConnectionEnded):
        if clients.get(key) == connection.connection_id and (
            deadline := connection.run.deadlines.meet_deadline(("E005", key))
        ):
            del clients[key]
            yield _problem("closed its connection after its", deadline.about)
        return
    is_pending = clients.pop(key, None) is not None
    if not clients:
        for api in _APIS:
            connection.run.unsubscribe("E005", api=api)
    if is_pending and isinstance(event, DeadlinePassed):
        yield _problem(f"has sent no Produce and no InitProducerId for {_GAVE_UP_AFTER} s since its", event.about)


def _problem(action: str, last_produce: _LastProduce) -> Problem:
    return Problem(
        f"{last_produce.client} {action} {last_produce.refusal_text}",
        hint="handle the fatal error of the producer: create a new one, or restart the application; if the broker lost "
        "no records, check how it counts sequences",
        cause=last_produce.error,
        request=last_produce.request,
    )


def _last_produce(event: ResponseReceived, errors: list[ReturnedError], connection: ConnectionState) -> _LastProduce:
    first = errors[0]
    assert event.request is not None
    targets = targets_text([error.target for error in errors], connection)
    refusal_text = (
        f"last Produce was refused with {first.name}{targets}: {first.judgement.meaning}{broker_text(event, first)}"
    )
    return _LastProduce(client_name(connection), refusal_text, first.name, ConcernedRequest.of(event.request))
