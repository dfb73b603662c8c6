"""S026: a consumer that keeps requesting an offset that is out of range."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import TopicPartition, label, topic_name_or_id
from dissectors.trackers.recurrence import SECOND, Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

OFFSET_OUT_OF_RANGE = Error.OFFSET_OUT_OF_RANGE
_INTERVAL = 3
_MAX_REDIRECTS = 10_000


#: For this long (ns) after a refusal, responses are searched for redirects; older redirects are ignored.
_OBSERVATION_NS = 30 * SECOND


class _OutOfRange(Recurrence):
    """OFFSET_OUT_OF_RANGE errors of one connection, per partition and offset."""


class _Redirect(NamedTuple):
    """A response that sends a consumer to another replica (KIP-392)."""

    leader: str
    replica: int
    high_watermark: int
    at: int


class _ListedOffset(NamedTuple):
    """An offset in a ListOffsets response, and when it arrived (ns)."""

    offset: int
    at: int


class _ListedOffsets(BoundedDict[Hashable, _ListedOffset]):
    """The offsets that ListOffsets returned, by consumer and partition, while offsets are out of range."""

    def __init__(self) -> None:
        super().__init__(_MAX_REDIRECTS)


class _Redirects:
    """The latest response that sends a consumer to another replica, by consumer and partition."""

    def __init__(self) -> None:
        self.refused_at = 0
        self._latest: BoundedDict[Hashable, _Redirect] = BoundedDict(_MAX_REDIRECTS)

    def observe(self, event: ResponseReceived, connection: ConnectionState) -> None:
        """Remember where a leader sends this consumer."""
        for topic in event.message.body.get("responses") or () if event.message is not None else ():
            for row in topic.get("partitions") or ():
                if (replica := row.get("preferred_read_replica", -1)) >= 0:
                    key = *_consumer_key(connection), topic_name_or_id(topic), row.get("partition_index", 0)
                    redirect = _Redirect(connection.server, replica, row.get("high_watermark", -1), event.at)
                    self._latest[key] = redirect

    def latest_redirect(
        self, topic_partition: TopicPartition, connection: ConnectionState, at: int
    ) -> _Redirect | None:
        """Return the recent redirect that led a consumer to this connection's server, or None."""
        redirect = self._latest.get((*_consumer_key(connection), *topic_partition))
        is_recent = (
            redirect is not None and redirect.leader != connection.server and at - redirect.at <= _OBSERVATION_NS
        )
        return redirect if is_recent else None


def _consumer_key(connection: ConnectionState) -> tuple[str, str | None]:
    return host_of(connection.client), connection.client_id


@rule(
    "S026",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.REFUSED,
    also=(Trigger((ResponseReceived,), ("ListOffsets",)),),
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
    offset but does not use it. Or the leader sends the consumer to a follower (KIP-392) that does not have the offset,
    and the client asks the leader again and again.

    ## Example
    ```story
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    ```

    The client continues at a field of the response that refused it:
    ```story
    > Fetch v5 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": -1}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > Fetch v5 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": -1}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > Fetch v5 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": -1}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    ```

    It looks up an offset, and does not use it:
    ```story
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > ListOffsets v2 {"topics": [{"name": "t", "partitions": [{"timestamp": -2}]}]}
    < {"topics": [{"name": "t", "partitions": [{"offset": 9}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"error_code": 1, "high_watermark": -1, "records": ""}]}]}
    ```

    ## Look-alikes
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
    https://github.com/twmb/franz-go/issues/885
    https://github.com/platformatic/kafka/issues/304
    """
    if event.message is not None and event.message.api == "ListOffsets":
        _note_listed_offsets(event, connection)
        return
    fetches, redirects = connection.state(Fetches), connection.run.state(_Redirects)
    if not fetches.refused or event.message is None:
        redirects.observe(event, connection)
        if event.at - redirects.refused_at > _OBSERVATION_NS:
            connection.run.unsubscribe("S026")
        return
    offsets = fetches.sessions.offsets(event.request)
    for topic_partition, code, path in fetches.refused:
        if code != OFFSET_OUT_OF_RANGE or topic_partition not in offsets:
            continue
        times = connection.state(_OutOfRange).count((topic_partition, offsets[topic_partition]), event.at)
        redirects.refused_at = event.at
        connection.run.subscribe("S026")
        if times % _INTERVAL:
            continue
        redirect = redirects.latest_redirect(topic_partition, connection, event.at)
        if redirect is not None and offsets[topic_partition] < redirect.high_watermark:
            yield Problem(
                f"{redirect.leader} sends the consumer of {label(topic_partition, connection)} to replica "
                f"{redirect.replica} (preferred_read_replica), and {connection.server} answers it with "
                f"OFFSET_OUT_OF_RANGE: {times} times for offset {offsets[topic_partition]}, although the leader's high "
                f"watermark is {redirect.high_watermark}",
                **locate(event.message, *path),
                hint="fix the client: after OFFSET_OUT_OF_RANGE from a follower it must fetch from the leader and keep "
                f"its offset; check why replica {redirect.replica} does not have the offset",
                cause=f"follower {topic_partition[0]}",
            )
        elif offsets[topic_partition] < 0:
            yield Problem(
                f"the client fetches offset {offsets[topic_partition]} of {label(topic_partition, connection)} "
                f"{times} times, which is no offset, although the broker answers with OFFSET_OUT_OF_RANGE",
                **locate(event.message, *path),
                hint="fix the client: after OFFSET_OUT_OF_RANGE it must look up a position with ListOffsets (timestamp "
                "-2 or -1), not take a field of the refused partition",
                cause=topic_partition[0],
            )
        elif (listed := _listed_offset(topic_partition, event.at, connection)) not in (None, offsets[topic_partition]):
            yield Problem(
                f"the client requests offset {offsets[topic_partition]} of {label(topic_partition, connection)} "
                f"{times} times although the broker answers {event.message.api} with OFFSET_OUT_OF_RANGE, and "
                f"ListOffsets with offset {listed}",
                **locate(event.message, *path),
                hint="fix the client: after OFFSET_OUT_OF_RANGE it must fetch from the offset that ListOffsets returns",
                cause=topic_partition[0],
            )
        else:
            yield Problem(
                f"the client requests offset {offsets[topic_partition]} of {label(topic_partition, connection)} "
                f"{times} times although the broker answers {event.message.api} with OFFSET_OUT_OF_RANGE: it should "
                "move to a valid offset",
                **locate(event.message, *path),
                hint="set auto.offset.reset to earliest or latest, or seek; check whether retention is "
                "shorter than the "
                "consumer's lag",
                cause=topic_partition[0],
            )


def _note_listed_offsets(event: ResponseReceived, connection: ConnectionState) -> None:
    """Remember the offsets that a consumer looks up."""
    assert event.message is not None
    listed_offsets, consumer = connection.run.state(_ListedOffsets), _consumer_key(connection)
    for topic in event.message.body.get("topics") or ():
        for row in topic.get("partitions") or ():
            offset = row.get("offset", -1)
            if offset >= 0 and not row.get("error_code"):
                key = *consumer, topic.get("name") or "", row.get("partition_index", 0)
                listed_offsets[key] = _ListedOffset(offset, event.at)


def _listed_offset(topic_partition: TopicPartition, at: int, connection: ConnectionState) -> int | None:
    """Return the offset that a consumer looked up recently; None if it has not."""
    topic, partition = topic_partition
    name = connection.run.topic_names.get(topic, topic)
    listed = connection.run.state(_ListedOffsets).get((*_consumer_key(connection), name, partition))
    return listed.offset if listed is not None and at - listed.at <= _OBSERVATION_NS else None
