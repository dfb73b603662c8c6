"""S027: a consumer that skips or rereads records after OFFSET_OUT_OF_RANGE."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.rules.behaviour.offset_out_of_range_loop import OFFSET_OUT_OF_RANGE
from dissectors.trackers.fetch_facts import is_follower, requested_partitions
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import TopicPartition, label
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MAX_PARTITIONS = 1000


class _OutOfRange:
    """The last out-of-range offset per partition of one connection."""

    def __init__(self) -> None:
        self.offsets: BoundedDict[TopicPartition, int] = BoundedDict(_MAX_PARTITIONS)


@rule(
    "S027",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=("Fetch",),
    only=FrameFlags.REFUSED,
    needs=(Fetches,),
    since="0.1",
    blame="client",
)
def silent_offset_reset(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports how many records a consumer skips, or reads again, after its offset was out of range.

    ## Why it matters
    Clients reset automatically without telling the application: with `auto.offset.reset=latest`, the records in
    between are never read; with `earliest`, all retained records are read again.

    ## Usual cause
    Retention deleted the records before the consumer read them, the topic was deleted and recreated and the committed
    offset belongs to the old one, or an unclean leader election truncated the log.

    ## Example
    ```story
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 90}]}]}
    ```

    ## Look-alikes
    A consumer that continues at the same offset on another broker:
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    2> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    2< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 90, "records": [{"records": [{}]}]}]}]}
    2> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 6}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_auto.offset.reset
    https://github.com/twmb/franz-go/issues/1416
    https://github.com/apache/pinot/issues/8309
    """
    out_of_range = connection.state(_OutOfRange).offsets
    if isinstance(event, ResponseReceived):
        fetches = connection.state(Fetches)
        if fetches.refused and (request_body := event.request_body) is not None and not is_follower(request_body):
            offsets = fetches.sessions.offsets(event.request)
            for topic_partition, code, _ in fetches.refused:
                if code == OFFSET_OUT_OF_RANGE and topic_partition in offsets:
                    out_of_range[topic_partition] = offsets[topic_partition]
                    connection.run.subscribe("S027")
    elif out_of_range:
        for topic_partition, row, path in requested_partitions(event.message.body):
            if (
                topic_partition not in out_of_range
                or (new_offset := row.get("fetch_offset", 0)) == out_of_range[topic_partition]
            ):
                continue
            old_offset = out_of_range.pop(topic_partition)
            if new_offset < 0:
                continue  # no offset: S026 reports it if the client repeats it
            partition_name, action = (
                label(topic_partition, connection),
                "skips" if new_offset > old_offset else "goes back",
            )
            yield Problem(
                f"after OFFSET_OUT_OF_RANGE at offset {old_offset} of {partition_name} the client continues at "
                f"{new_offset}: it {action} {count_text(abs(new_offset - old_offset), 'offset')}",
                **locate(event.message, *path, "fetch_offset"),
                hint="compare the topic's retention with the consumer's lag; auto.offset.reset=none makes the "
                "application decide",
                cause=topic_partition[0],
            )
