"""S030: a client that keeps using the id of a deleted topic."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas import error_name
from dissectors.schemas.codes import Error
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.producers import Producers
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_ID_ERRORS = (Error.UNKNOWN_TOPIC_ID, Error.INCONSISTENT_TOPIC_ID)
_THRESHOLD = 3
_MIN_DURATION = 5 * SECOND
_RESET_AFTER = 60 * SECOND
_MAX_TOPICS = 1000


class _StaleTopicIds:
    """Refused topic ids of one connection: the times of the first and the latest refusal, and the number."""

    def __init__(self) -> None:
        self.topics: BoundedDict[str, tuple[int, int, int]] = BoundedDict(_MAX_TOPICS)


@rule(
    "S030",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch", "Produce"),
    only=FrameFlags.REFUSED,
    needs=(Fetches, Producers),
    since="0.1",
    blame="client",
)
def topic_recreated(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client refreshes Metadata after using a topic id that the broker does not know.

    ## Why it matters
    A topic that is deleted and recreated keeps its name but gets a new id. A client that keeps the old id can no
    longer read or write it until it is restarted.

    ## Usual cause
    The client treats UNKNOWN_TOPIC_ID as a transient error, or keeps the ids from its first Metadata response.

    ## Example
    ```story
    > Metadata v10 {"topics": [{"name": "t"}]}
    < {"topics": [{"name": "t", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}]}
    > Fetch v13 {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"error_code": 100, "records": ""}]}]}
    +3s
    > Fetch v13 {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"error_code": 100, "records": ""}]}]}
    +3s
    > Fetch v13 {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"error_code": 100, "records": ""}]}]}
    ```

    ## Look-alikes
    A broker that briefly does not know a new topic:
    ```story
    > Fetch v13 {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"fetch_offset": 0}]}]}
    < {"responses": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"error_code": 100, "records": ""}]}]}
    +100ms
    > Fetch v13 {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"fetch_offset": 0}]}]}
    < {"responses": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"error_code": 100, "records": ""}]}]}
    +200ms
    > Fetch v13 {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"fetch_offset": 0}]}]}
    < {"responses": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"records": ""}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-516%3A+Topic+Identifiers
    https://github.com/twmb/franz-go/issues/908
    https://github.com/confluentinc/confluent-kafka-javascript/issues/274
    """
    message = event.message
    if message is None or event.request_body is None:
        return
    refused = connection.state(Fetches).refused if message.api == "Fetch" else connection.run.state(Producers).refused
    reported = set()
    for (topic, _), code, path in refused:
        if code not in _ID_ERRORS or topic in reported:
            continue
        reported.add(topic)
        stale_topics = connection.state(_StaleTopicIds).topics
        since, last, times = stale_topics.get(topic, (event.at, event.at, 0))
        if event.at - last > _RESET_AFTER:
            since, times = event.at, 0
        stale_topics[topic] = since, event.at, times + 1
        if times + 1 >= _THRESHOLD and event.at - since >= _MIN_DURATION:
            del stale_topics[topic]
            text, remedy = _topic_text(topic, connection)
            yield Problem(
                f"the client keeps using topic id {text} although the broker has answered "
                f"{message.api} with {error_name(code)} for {(event.at - since) // SECOND} s; it should {remedy}",
                **locate(message, *path),
                hint="the topic was deleted or recreated: restart the client, or update it",
                cause=topic,
            )


def _topic_text(topic: str, connection: ConnectionState) -> tuple[str, str]:
    """Return a description of the topic id, and what the client should do."""
    names = connection.run.topic_names
    name = names.get(topic)
    newest = None if name is None else next(topic_id for topic_id in reversed(names) if names[topic_id] == name)
    if newest is None or newest == topic:
        return topic if name is None else f"{topic} of {name!r}", "refresh its Metadata"
    return f"{topic} of {name!r}, which now has the id {newest},", "use the new id of its Metadata"
