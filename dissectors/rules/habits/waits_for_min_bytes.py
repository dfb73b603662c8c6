"""H010: a consumer whose records are held back for fetch.max.wait.ms because fetch.min.bytes never arrive."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.fetches import FULL_WAITS, Fetches
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MS = 1_000_000


@rule(
    "H010",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(Fetches,),
    limits=(FULL_WAITS,),
    since="0.1",
    blame="client",
)
def waits_for_min_bytes(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports consumers for which the broker holds back records because they are smaller than `fetch.min.bytes`.

    ## Why it matters
    The broker answers when that many bytes are available, or when `fetch.max.wait.ms` has elapsed. If the bytes never
    arrive, this wait delays the records.

    ## Usual cause
    `fetch.min.bytes` was raised for throughput, on a topic with less traffic than that.

    ## Example
    ```story
    rule H010:responses=2
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 100000, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    +500ms
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 2,
      "records": [{"base_offset": 1, "records": [{"value": "v"}]}]}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 100000, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 2}]}]}
    +500ms
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 3,
      "records": [{"base_offset": 2, "records": [{"value": "v"}]}]}]}]}
    ```

    ## Look-alikes
    With the default of 1, a record that arrives after a while is not held back:
    ```story
    rule H010:responses=2
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    +500ms
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 2,
      "records": [{"base_offset": 1, "records": [{"value": "v"}]}]}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 2}]}]}
    +500ms
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 3,
      "records": [{"base_offset": 2, "records": [{"value": "v"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_fetch.min.bytes
    """
    fetches, request_body = connection.state(Fetches), event.request_body
    if request_body is not None and fetches.full_waits >= connection.run.limit(FULL_WAITS):
        count, fetches.full_waits = fetches.full_waits, 0
        wait = duration(request_body.get("max_wait_ms", 0) * _MS)
        yield Problem(
            f"{client_label(connection)} waited {wait} for the records of each of {count} Fetch responses in a row: "
            f"they had fewer bytes than its fetch.min.bytes, {request_body.get('min_bytes', 0):,}",
            hint="lower fetch.min.bytes, or fetch.max.wait.ms (fetch.wait.max.ms in librdkafka), which is the delay",
            cause="min_bytes",
        )
