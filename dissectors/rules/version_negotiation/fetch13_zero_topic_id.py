"""V013: a Fetch by topic id with an all-zero id."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger
from dissectors.trackers.versions import Versions
from dissectors.wire.layout import NULL_UUID

FETCH = ApiKey.FETCH

#: The first version that names topics by their id (KIP-516).
FIRST_VERSION_WITH_TOPIC_IDS = 13


@rule(
    "V013",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    apis=("Fetch",),
    versions=range(FIRST_VERSION_WITH_TOPIC_IDS, 1 << 15),
    also=(Trigger((ResponseReceived,), ("Metadata",)),),
    needs=(Versions,),
    since="0.1",
    blame="client",
)
def fetch13_zero_topic_id(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a Fetch of version 13 or later, which identifies topics by id, has a nonzero topic id.

    Info for a single Fetch on a connection whose negotiation was not seen, and for a Metadata response without ids
    from a server that advertises such a Fetch: it tells the client to stay at version 12.

    ## Why it matters
    The broker answers UNKNOWN_TOPIC_ID, the client requests Metadata and again gets no id: it never consumes anything.

    ## Usual cause
    A cluster whose ``inter.broker.protocol.version`` is below 2.8 has no topic ids, but its brokers advertise Fetch
    v13. A client must check that it got an id before it uses that version.

    ## Example
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "max_version": 13}, {"api_key": 3, "max_version": 12}]}
    > Fetch v13 {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAA", "partitions": [{"partition": 0}]}]}
    ```
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "max_version": 13}, {"api_key": 3, "max_version": 12}]}
    > Metadata v12 {}
    < {"topics": [{"name": "orders", "topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}]}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "max_version": 13}, {"api_key": 3, "max_version": 12}]}
    > Metadata v12 {"topics": [{"name": "nothing"}]}
    < {"topics": [{"name": "nothing", "error_code": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}]}
    > Fetch v13 {"topics": [{"topic_id": "-FkoY1JvQ3qEtSxJ1Xq9wA", "partitions": [{"partition": 0}]}]}
    < {}
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    ```

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/4806
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-516%3A+Topic+Identifiers
    """
    message = event.message
    if isinstance(event, RequestReceived):
        for index, topic in enumerate(event.message.body["topics"]):
            if topic["topic_id"] == NULL_UUID:
                yield Problem(
                    f"Fetch v{event.message.version} identifies a topic by an all-zero id",
                    **locate(event.message, "topics", index, "topic_id"),
                    hint="fetch with v12, by name, from a cluster without topic ids; raise its"
                    " inter.broker.protocol.version (metadata.version) to 2.8 or later",
                    severity=None if connection.state(Versions).negotiated else Severity.INFO,
                )
                return
    elif message is not None:
        ranges = connection.state(Versions).negotiated
        if not ranges or ranges.get(FETCH, (0, 0))[1] < FIRST_VERSION_WITH_TOPIC_IDS:
            return
        for index, topic in enumerate(message.body["topics"]):
            if topic.get("topic_id") == NULL_UUID and topic["error_code"] == 0:
                yield Problem(
                    f"{connection.server} advertises Fetch v{FIRST_VERSION_WITH_TOPIC_IDS} but gives topic"
                    f" {topic['name']!r} no id",
                    **locate(message, "topics", index, "topic_id"),
                    hint="clients must fetch with v12 at most; raise inter.broker.protocol.version to 2.8 or later",
                    severity=Severity.INFO,
                    blame="broker",
                )
                return
