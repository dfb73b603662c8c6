"""S062: a consumer that gets the same new records again and again."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import label
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
    """Checks that a consumer moves on after it got records.

    ## Why it matters
    The consumer fetches the same offset again although the response has records from there on. Its lag grows, and the
    broker sends the same bytes each time.

    ## Usual cause
    An application that seeks back to a record that it cannot process, and retries it forever. Or a client that drops
    what it got: it cannot decode the records, checks their CRC wrongly, or takes the response for an older one. A
    finding about the response itself explains that better.

    Reported after 15 responses over at least 5 s.

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

    ## Looks alike
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
    """
    message = event.message
    if message is None:
        return
    for each in connection.state(RepeatedBatches).stuck(event, connection):
        found, since = each.contents, event.at - each.since
        if found is None or found.newest < each.offset or each.times < THRESHOLD or since < MIN_DURATION:
            continue
        yield Problem(
            f"{each.times} fetches of {label(each.place, connection)} at {each.offset} within {duration(since)} got "
            f"the same records, up to offset {found.newest}: the consumer does not move on",
            **locate(message, *each.where, "records"),
            hint="check whether the application seeks back to a record that it cannot process, and what the client "
            "logs about the batch",
            expected=f"a fetch from an offset after {each.offset}",
            got=f"offset {each.offset}",
            cause=each.place[0],
        )
