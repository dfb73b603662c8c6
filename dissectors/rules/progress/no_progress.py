"""S067: a client that sends nothing but the same request again and again, and gets the same answer each time."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.summary import errors, group_id, topics, transactional_id
from dissectors.rules import rule
from dissectors.rules.refusals.refused_repeatedly import is_refused
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.repetitions import REPEATABLE, Repetitions
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_text

#: Reported after this many exchanges over this time (ns).
THRESHOLD = 20
MIN_DURATION = 5_000_000_000

_MAX_TOPICS = 3


@rule(
    "S067",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=tuple(api for api in REPEATABLE if api not in ("Metadata", "DescribeCluster")),
    needs=(Repetitions,),
    since="0.1",
    blame="client",
)
def no_progress(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client does not send the same request again and again although the answer stays the same.

    ## Why it matters
    The client waits for something that does not happen, or does not use the answer that it has. It gets no error, does
    nothing else on this connection, and neither it nor the broker logs anything.

    ## Usual cause
    A client that expects a value that the server does not send, such as a group, a coordinator or an offset that it
    never gets; or that rejects a field of the answer. Polling is not such a loop: it waits longer than 1 s, or has
    other requests in between. Heartbeats, fetches and commits are not counted, and Metadata has rules of its own (S005,
    S065, S066).

    It is reported after 20 exchanges over at least 5 s without an error.

    ## Example
    ```story
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    ```

    ## Look-alikes
    A lag exporter asks for the committed offsets and then for the ends, and waits between its rounds:
    ```story
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    +300ms
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    < {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 7}]}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    https://github.com/confluentinc/librdkafka/issues/4425
    """
    message, request = event.message, event.request
    repetition = connection.state(Repetitions).latest
    if message is None or request is None or repetition.times < THRESHOLD:
        return
    elapsed = event.at - repetition.since
    if elapsed < MIN_DURATION or message.diagnosis is not None or errors(message):
        return
    if is_refused(connection):
        return  # the client repeats this request between attempts at the refused one
    yield Problem(
        f"{client_text(connection)} sent the same {message.api} v{message.version}{_subject_text(event)} "
        f"{repetition.times} times within {duration(elapsed)} and got the same answer without an error each time, and "
        "sent nothing else: nothing changes",
        **locate(message),
        hint="compare the answer with what the client waits for; check what it logs at debug level about this response",
        cause=f"{connection.client_id}",
    )


def _subject_text(event: ResponseReceived) -> str:
    """Return what a request is about: `` for group 'g'``."""
    assert event.request is not None
    request = event.request.message
    if (group := group_id(request)) is not None:
        return f" for group {group!r}"
    if (transaction := transactional_id(request)) is not None:
        return f" for transactional id {transaction!r}"
    names = [topic.name for topic in topics(request) if topic.name][:_MAX_TOPICS]
    return f" for {', '.join(names)}" if names else ""
