"""R013: zstd in an API version that does not support it."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.records.compression import CODECS
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import RecordData, problem_location, record_data, severity_in_traffic
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: The first versions of Produce and Fetch with zstd (KIP-110).
_PRODUCE_ZSTD, _FETCH_ZSTD = 7, 10
_UNSUPPORTED_COMPRESSION_TYPE = Error.UNSUPPORTED_COMPRESSION_TYPE

_ZSTD = CODECS.index("zstd")
_ATTRIBUTES_OFFSET = 21


@rule(
    "R013",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
    blame="client",
)
def zstd_old_version(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that zstd is used only with Produce v7 or later, or Fetch v10 or later.

    ## Why it matters
    The broker answers older versions with UNSUPPORTED_COMPRESSION_TYPE: nothing is written, or the consumer is stuck
    at the first zstd batch.

    ## Usual cause
    A client that has the codec but not the versions, or that chooses its versions without ApiVersions; or a topic
    with `compression.type=zstd` that an old consumer reads.

    ## Example
    ```story
    > Produce v6 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"compression": "zstd", "records": [{"value": "a"}]}]}]}]}
    ```
    ```story
    > Fetch v9 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"error_code": 76, "high_watermark": -1}]}]}
    ```

    ## Look-alikes
    ```story
    > Produce v7 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"compression": "zstd", "records": [{"value": "a"}]}]}]}]}
    > Produce v6 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"compression": "lz4", "records": [{"value": "a"}]}]}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-110%3A+Add+Codec+for+ZStandard+Compression
    https://github.com/dpkp/kafka-python/issues/2187
    https://github.com/confluentinc/librdkafka/issues/2880
    https://github.com/confluentinc/librdkafka/issues/4951
    https://github.com/aio-libs/aiokafka/issues/1112
    """
    message = event.message
    if message is None or message.version >= (_PRODUCE_ZSTD if message.is_request else _FETCH_ZSTD):
        return
    data = record_data(event, connection)
    if isinstance(event, ResponseReceived):
        for part in data.failed:
            if part.row["error_code"] == _UNSUPPORTED_COMPRESSION_TYPE and event.request_body is not None:
                yield Problem(
                    f"{label(part.topic_partition, connection)} is compressed with zstd, which Fetch "
                    f"v{message.version} does not support: UNSUPPORTED_COMPRESSION_TYPE, "
                    f"should be v{_FETCH_ZSTD} or later",
                    **locate(message, *part.path, "error_code"),
                    hint=f"use a client that supports Fetch v{_FETCH_ZSTD}, or another compression.type for the topic",
                    cause=part.topic_partition[0],
                )
        return
    if not data.attributes & _ZSTD:
        return
    for part in data.parts:
        for index, batch in enumerate(part.batches):
            if batch.magic == 2 and batch.attributes & 7 == _ZSTD:
                start = batch.start + _ATTRIBUTES_OFFSET
                yield Problem(
                    f"{label(part.topic_partition, connection)}: zstd in Produce v{message.version}, should be "
                    f"v{_PRODUCE_ZSTD} or later",
                    **problem_location(event, part, start, start + 2, str(index), "attributes"),
                    hint=f"send zstd with Produce v{_PRODUCE_ZSTD} or later, and request ApiVersions first",
                    severity=severity_in_traffic(connection),
                    cause=part.topic_partition[0],
                )
                break
