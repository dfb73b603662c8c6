"""S035: a fenced or unknown producer that keeps sending."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages import summary
from dissectors.messages.locate import locate
from dissectors.messages.message import Message
from dissectors.messages.topic_records import topic_records
from dissectors.rules import rule
from dissectors.schemas import error_name
from dissectors.schemas.codes import Error
from dissectors.trackers.producers import Producers
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.wire.paths import parts

_FENCED_ERRORS = (Error.INVALID_PRODUCER_EPOCH, Error.UNKNOWN_PRODUCER_ID, Error.PRODUCER_FENCED)
_THRESHOLD = 3
_RESET_AFTER = 600 * SECOND
_MAX_PRODUCERS = 10_000


class _RefusedProducers:
    """Number and last time (ns) of each producer's refusals. Requests sent before the last one are not counted."""

    def __init__(self) -> None:
        self.producers: BoundedDict[str, tuple[int, int]] = BoundedDict(_MAX_PRODUCERS)


@rule(
    "S035",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
    only=FrameFlags.REFUSED,
    needs=(Producers,),
    since="0.1",
    blame="client",
)
def unknown_producer(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a fenced producer, or one whose id the broker does not know, stops or gets a new id.

    ## Why it matters
    None of the producer's data is written. Two instances that keep fencing each other make no progress either.

    ## Usual cause
    Two producers share a `transactional.id`, or the client repeats requests with the refused id and epoch instead of
    getting new ones with InitProducerId.

    ## Example
    ```story
    > EndTxn v3 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    < {"error_code": 47}
    > EndTxn v3 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    < {"error_code": 47}
    > EndTxn v3 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    < {"error_code": 47}
    ```

    ## Look-alikes
    A producer that is fenced once, with several requests in flight:
    ```story
    > AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "group_id": "g"}
    2> EndTxn v3 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    3> EndTxn v3 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "committed": true}
    < {"error_code": 47}
    2< {"error_code": 47}
    3< {"error_code": 47}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-360%3A+Improve+reliability+of+idempotent%2Ftransactional+producer
    https://github.com/apache/kafka/pull/9832
    """
    message, request = event.message, event.request
    if message is None or request is None or (request_body := event.request_body) is None:
        return
    refusal = _fencing_error(event, message, connection)
    if refusal is None:
        return
    code, path = refusal
    producer = _producer_text(request.message, request_body)
    refused_producers = connection.run.state(_RefusedProducers).producers
    times, last = refused_producers.get(producer, (0, 0))
    if event.at - last > _RESET_AFTER:
        times = 0
    elif request.at < last:
        return
    refused_producers[producer] = times + 1, event.at
    if times + 1 >= _THRESHOLD:
        yield Problem(
            f"{producer} got {error_name(code)} for {times + 1} requests in a row, the last {message.api}: it should "
            "stop or get a new id and epoch with InitProducerId",
            **locate(message, *path),
            hint="check whether two producers share a transactional.id; otherwise update the client",
            cause=producer,
        )


def _fencing_error(
    event: ResponseReceived, message: Message, connection: ConnectionState
) -> tuple[int, list[str]] | None:
    if message.api == "Produce":
        refused = connection.run.state(Producers).refused
        return next(
            (
                (partition.code, [str(part) for part in partition.where])
                for partition in refused
                if partition.code in _FENCED_ERRORS
            ),
            None,
        )
    refused_field = next((error for error in summary.errors(message) if error.code in _FENCED_ERRORS), None)
    return (refused_field.code, parts(refused_field.path)) if refused_field else None


def _producer_text(request: Message, request_body: dict[str, object]) -> str:
    if name := summary.transactional_id(request):
        return f"transactional producer {name!r}"
    rows = chain.from_iterable(topic.partitions for topic in topic_records(request))
    batch = next((records.batch for records in rows if records.batch is not None), None)
    producer_id = (
        batch.producer_id if batch else request_body.get("producer_id", request_body.get("v3_and_below_producer_id"))
    )
    return f"producer {producer_id}"
