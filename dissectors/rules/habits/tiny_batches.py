"""R026: a producer that sends records one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.produce_habits import REQUESTS, SHARE, ProduceHabits
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

RATE = Limit("rate", 200, "records", "and there are so many records per second for each partition")
FLUSH_RATE = Limit(
    "flush_rate", 10, "records", "the same for a producer that waits for each response before it sends more"
)

#: The number of records that a linger time should collect, and Kafka 4.0's default linger time.
_COLLECTED, _LINGER_MS = 5, 5

#: A producer that waits for each response sends at least this share of its requests while it awaits no other response.
_MIN_ALONE_SHARE = 0.9
#: Such a producer certainly flushes if it waits for at least this share of the time, or if the mean time until it sends
#: again is at most `_AT_ONCE` (ns). Up to `_AFTER_LINGER` it probably does: without a flush, a record waits for the
#: linger time.
_WAITING_SHARE, _AT_ONCE, _AFTER_LINGER = 0.5, 1_000_000, 7_000_000

_FLUSH = "do not flush or wait for the result after each record: send several, then wait once"

#: The time (ns) assumed for a shorter window: frames that arrive together have the same timestamp.
_MIN_WINDOW = 1_000_000


@rule(
    "R026",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(ProduceHabits,),
    limits=(REQUESTS, SHARE, RATE, FLUSH_RATE),
    since="0.1",
    blame="client",
)
def tiny_batches(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that producers batch records: one record per request at a high rate wastes most of the broker's time.

    ## Why it matters
    A request costs the broker about as much with one record as with a hundred. A producer that waits for each response
    sends one record per round trip, however fast the broker is.

    ## Usual cause
    A call of `flush`, or a wait for the result, after each record; or `linger.ms=0` (the default of Java clients before
    Kafka 4.0) at a rate at which a few milliseconds would collect several records. The finding says which it is.

    ## Example
    ```story
    rule R026:requests=4
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "1"}]}]}]}]}
    < {"responses": []}
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "2"}]}]}]}]}
    +8ms
    < {"responses": []}
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "3"}]}]}]}]}
    +8ms
    < {"responses": []}
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "4"}]}]}]}]}
    < {"responses": []}
    ```

    ## Look-alikes
    A producer that has a record only occasionally, which no setting could batch:
    ```story
    rule R026:requests=4
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "1"}]}]}]}]}
    < {"responses": []}
    +500ms
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "2"}]}]}]}]}
    < {"responses": []}
    +500ms
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "3"}]}]}]}]}
    < {"responses": []}
    +500ms
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "4"}]}]}]}]}
    < {"responses": []}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_linger.ms
    https://kafka.apache.org/documentation/#producerconfigs_batch.size
    """
    window = connection.state(ProduceHabits).window
    if window is None:
        return
    elapsed = max(window.ns, _MIN_WINDOW)
    rate = window.requests * SECOND / elapsed / window.partition_count
    waits_for_responses = window.alone >= _MIN_ALONE_SHARE * (window.singles - 1)
    flushes = waits_for_responses and window.idle_ns <= max((1 - _WAITING_SHARE) * elapsed, _AT_ONCE * window.requests)
    sends_soon = waits_for_responses and (flushes or window.idle_ns <= _AFTER_LINGER * window.requests)
    if rate < connection.run.limit(FLUSH_RATE if sends_soon else RATE):
        return
    partitions_text = f"to {window.partition_count} partition{'s' if window.partition_count > 1 else ''}"
    linger_ms = max(math.ceil(1000 * _COLLECTED / rate), _LINGER_MS)
    collect = f"let the producer collect records: linger.ms={linger_ms} would collect {_COLLECTED} or more"
    wait_text = ", each sent only after the response to the one before" if waits_for_responses else ""
    yield Problem(
        f"{client_label(connection)} sent {window.singles} of {window.requests} Produce requests within "
        f"{duration(elapsed)} with one record each, {partitions_text}{wait_text}",
        hint=_FLUSH if flushes else f"{_FLUSH}; if it does not, {collect}" if waits_for_responses else collect,
        cause="flush" if waits_for_responses else "linger",
    )
