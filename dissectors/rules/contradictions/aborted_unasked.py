"""S081: aborted transactions in a response to a consumer that reads all records."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.topic_records import topic_records
from dissectors.rules import rule
from dissectors.trackers.fetch_facts import is_follower, is_read_committed
from dissectors.trackers.partitions import label
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "S081",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    since="0.1",
    blame="broker",
)
def aborted_unasked(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a read_uncommitted fetch does not list aborted transactions.

    ## Why it matters
    With isolation_level 0, a consumer reads all records. Clients that filter by the list alone drop the records of the
    aborted transactions, although the application wants to see them.

    ## Usual cause
    A broker that fills in aborted_transactions regardless of the isolation level. Kafka returns null.

    ## Example
    ```story
    > Fetch v11 {"isolation_level": 0, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 0}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 1, "aborted_transactions": [
       {"producer_id": 5, "first_offset": 0}], "records": [{"is_transactional": true, "producer_id": 5,
       "producer_epoch": 0, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    ```story
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 0}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 1, "last_stable_offset": 1,
       "aborted_transactions": [{"producer_id": 5, "first_offset": 0}], "records": [{"is_transactional": true,
       "producer_id": 5, "producer_epoch": 0, "records": [{"value": "a"}]}]}]}]}
    > Fetch v11 {"isolation_level": 0, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 1}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 2, "aborted_transactions": [], "records": [
       {"base_offset": 1, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Sources
    https://github.com/redpanda-data/redpanda/pull/18852
    https://github.com/twmb/franz-go/pull/758
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or is_follower(request_body) or is_read_committed(request_body):
        return
    for i, topic in enumerate(topic_records(message)):
        for j, partition in enumerate(topic.partitions):
            if aborted_transactions := partition.row.get("aborted_transactions"):
                yield Problem(
                    f"{label((topic.key, partition.partition or 0), connection)}: the response lists "
                    f"{len(aborted_transactions)} aborted "
                    f"transaction{'s' if len(aborted_transactions) > 1 else ''} although the consumer reads all "
                    "records (isolation_level 0): clients may drop the records of producer "
                    f"{aborted_transactions[0].get('producer_id')} from {aborted_transactions[0].get('first_offset')} "
                    "on",
                    **locate(message, "responses", i, "partitions", j, "aborted_transactions"),
                    hint="fix the broker: return null unless isolation_level is 1 (read_committed)",
                    expected="null",
                    cause=topic.key,
                )
