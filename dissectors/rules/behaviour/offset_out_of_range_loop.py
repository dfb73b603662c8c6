"""S026: a consumer that keeps requesting an offset that is out of range."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import label
from dissectors.trackers.recurrence import Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

OFFSET_OUT_OF_RANGE = Error.OFFSET_OUT_OF_RANGE
_INTERVAL = 3


class _OutOfRange(Recurrence):
    """OFFSET_OUT_OF_RANGE errors of one connection, per partition and offset."""


@rule(
    "S026",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.REFUSED,
    needs=(Fetches,),
    since="0.1",
    blame="client",
)
def offset_out_of_range_loop(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a consumer moves to another offset after OFFSET_OUT_OF_RANGE.

    ## Why it matters
    The records at that offset were deleted (retention) or never existed. Retrying returns the same error, and the
    partition is no longer read.

    ## Usual cause
    No reset policy (`auto.offset.reset=none`) in an application that retries forever, or a client that looks up a new
    offset but does not use it.

    ## Example
    ```story
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    ```

    ## Looks alike
    A reset to an existing offset:
    ```story
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 90}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 90, "records": ""}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_auto.offset.reset
    https://github.com/confluentinc/librdkafka/issues/3745
    https://github.com/confluentinc/librdkafka/issues/5158
    """
    fetches = connection.state(Fetches)
    if not fetches.refused or event.message is None:
        return
    offsets = fetches.offsets(event.request)
    for place, code, where in fetches.refused:
        if code != OFFSET_OUT_OF_RANGE or place not in offsets:
            continue
        times = connection.state(_OutOfRange).count((place, offsets[place]), event.at)
        if times % _INTERVAL == 0:
            yield Problem(
                f"the client requests offset {offsets[place]} of {label(place, connection)} {times} times"
                f" although the broker answers {event.message.api} with OFFSET_OUT_OF_RANGE: it should move to a valid "
                "offset",
                **locate(event.message, *where),
                hint="set auto.offset.reset to earliest or latest, or seek; check whether retention is "
                "shorter than the "
                "consumer's lag",
                cause=place[0],
            )
