"""M006: a Fetch response larger than requested."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.records.formats import entries
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "M006",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    since="0.1",
    blame="broker",
)
def fetch_over_request(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a Fetch response exceeds ``max_bytes`` of its request by at most one batch.

    ## Why it matters
    A client sizes its memory by what it requested. librdkafka closes the connection if a response exceeds its
    ``receive.message.max.bytes``, requests the same again, and never gets past it.

    ## Usual cause
    A server that fills every partition up to ``partition_max_bytes`` without adding them up.

    ## Example
    ```story
    > Fetch v11 {"max_bytes": 100, "topics": [{"topic": "a", "partitions": [{}, {"partition": 1}]}]}
    < {"responses": [{"topic": "a", "partitions": [
      {"records": [{"records": [{"value": "0123456789 0123456789 0123456789 0123456789 0123456789"}]}]},
      {"partition_index": 1, "records":
        [{"records": [{"value": "0123456789 0123456789 0123456789 0123456789 0123456789"}]},
         {"records": [{"value": "0123456789 0123456789 0123456789 0123456789 0123456789"}]}]}]}]}
    ```

    ## Look-alikes
    The first batch is sent whole, however large, so that the consumer can continue (KIP-74):
    ```story
    > Fetch v11 {"max_bytes": 100, "topics": [{"topic": "a", "partitions": [{}]}]}
    < {"responses": [{"topic": "a", "partitions": [
      {"records": [{"records": [{"value": "0123456789 0123456789 0123456789 0123456789 0123456789"}]}]}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-74%3A+Add+Fetch+Response+Size+Limit+in+Bytes
    https://github.com/confluentinc/librdkafka/issues/1616
    https://github.com/confluentinc/confluent-kafka-dotnet/issues/90
    """
    request_body, message = event.request_body, event.message
    if request_body is None or message is None or event.size <= (limit := request_body.get("max_bytes", event.size)):
        return
    record_sets = [
        records
        for topic in message.body.get("responses") or ()
        for partition in topic.get("partitions") or ()
        if (records := partition.get("records"))
    ]
    total = sum(map(len, record_sets))
    if total <= limit or limit < 0:
        return
    largest = max(entry.end - entry.start for records in record_sets for entry in entries(records, 0, len(records)))
    if total - largest > limit:
        yield Problem(
            f"Fetch v{message.version} requested at most {limit} bytes of records but got {total}",
            **locate(message, "responses"),
            hint="fix the broker to enforce max_bytes over all partitions; until then, lower max.partition.fetch.bytes",
            expected=f"at most {limit} bytes and one batch",
            got=f"{total} bytes",
        )
