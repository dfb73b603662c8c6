"""S062: a consumer that gets the same unread records again and again."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.fetch_facts import requested_partitions
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import TopicPartition, label
from dissectors.trackers.repeated_batches import RepeatedBatches
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: Reported after this many responses over this time (ns): frameworks retry a record ten times by default.
THRESHOLD = 15
MIN_DURATION = 5_000_000_000


@rule(
    "S062",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.REPEATED,
    needs=(Fetches,),
    since="0.1",
    blame="client",
)
def refetched_records(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a consumer moves on after it has got records.

    ## Why it matters
    The consumer fetches the same offset again although the response has records from there on. Its lag grows, and the
    broker sends the same bytes each time.

    ## Usual cause
    An application that seeks back to a record that it cannot process, and retries it forever. Or a client that drops
    the records: it cannot decode them, checks their CRC wrongly, or takes the response for an older one. A finding
    about the response itself explains that better. Or a client that leaves a partition in its fetch session (KIP-227)
    after it has stopped reading it: the broker sends the partition's records again in every response.

    It is reported after 15 responses over at least 5 s.

    ## Example
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    Ten retries, after which the application skips the record:
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    +500ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 8}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": [
       {"base_offset": 8, "records": [{"value": "b"}]}]}]}]}
    ```

    ## Sources
    https://docs.spring.io/spring-kafka/reference/kafka/annotation-error-handling.html
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/platformatic/kafka/pull/321
    """
    message = event.message
    if message is None:
        return
    for partition in connection.state(RepeatedBatches).stuck_partitions(event, connection):
        contents, elapsed = partition.contents, event.at - partition.since
        if (
            contents is None
            or contents.newest < partition.offset
            or partition.times < THRESHOLD
            or elapsed < MIN_DURATION
        ):
            continue
        fetches_text = (
            f"{partition.times} fetches of {label(partition.topic_partition, connection)} at {partition.offset} within "
            f"{duration(elapsed)} got the same records, up to offset {contents.newest}: "
        )
        reason, hint = (
            "the consumer does not move on",
            "check whether the application seeks back to a record that it cannot process, and what the client logs "
            "about the batch",
        )
        if _stays_in_session(event, partition.topic_partition):
            reason = "the partition is still in the fetch session, although the client does not ask for it"
            hint = (
                "fix the client: a partition that it no longer reads (revoked, paused) must be in "
                "forgotten_topics_data (KIP-227); until then the broker sends the same records in every response"
            )
        yield Problem(
            fetches_text + reason,
            **locate(message, *partition.where, "records"),
            hint=hint,
            expected=f"a fetch from an offset after {partition.offset}",
            got=f"offset {partition.offset}",
            cause=partition.topic_partition[0],
        )


def _stays_in_session(event: ResponseReceived, topic_partition: TopicPartition) -> bool:
    """Return whether a partition is in the fetch session although the request names only other partitions."""
    request_body = event.request_body or {}
    requested = [requested_partition for requested_partition, _, _ in requested_partitions(request_body)]
    return request_body.get("session_epoch", -1) > 0 and bool(requested) and topic_partition not in requested
