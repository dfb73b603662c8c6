"""L021: a Metadata request for all topics gets none, or a request for no topics gets some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@dataclass(slots=True)
class _SeenTopic:
    """A topic that a Metadata response on this connection listed, so the client is allowed to see it."""

    topic: str | None = None


@rule(
    "L021",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Metadata",),
    since="0.1",
    blame="broker",
)
def null_empty_inverted(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a Metadata request for all topics returns topics, and one for none returns none.

    ## Why it matters
    In version 0, an empty list requests all topics. From version 1 on, null requests all and an empty list none. If a
    server confuses the two, clients see no topics at all ("received 0 topics in all metadata request"), or get the
    whole cluster when they only want the brokers.

    ## Usual cause
    A server that treats null and empty alike. The same mistake in a client cannot be detected: from version 1 on, an
    empty list is correct for a client that wants only the brokers. A cluster whose topics were deleted or are no
    longer visible looks like the second example, so that case is info.

    ## Example
    ```story
    > Metadata v1 {"topics": []}
    < {"topics": [{"name": "orders"}]}
    ```
    ```story
    > Metadata v4 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders"}]}
    > Metadata v4 {"topics": null}
    < {"topics": []}
    ```

    ## Look-alikes
    ```story
    > Metadata v0 {"topics": []}
    < {"topics": [{"name": "orders"}]}
    > Metadata v1 {"topics": null}
    < {"topics": [{"name": "orders"}]}
    > Metadata v1 {"topics": []}
    < {"topics": []}
    ```
    A cluster without topics:
    ```story
    > Metadata v12 {"topics": null}
    < {"topics": []}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-4+-+Command+line+and+centralized+administrative+operations
    https://github.com/IBM/sarama/issues/1352
    https://github.com/dpkp/kafka-python/pull/867
    https://github.com/hstreamdb/hstream/issues/1597
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or "topics" not in request_body:
        return
    requested, topics, seen_topic = (
        request_body["topics"],
        message.body.get("topics") or (),
        connection.state(_SeenTopic),
    )
    if requested == [] and message.version > 0:
        if topics:
            yield Problem(
                f"Metadata v{message.version} requested no topics (an empty list) but got {len(topics)}",
                **locate(message, "topics"),
                hint="from version 1 on, only null requests all topics; answer an empty list with an empty list",
                expected="no topics",
                got=f"{len(topics)} topics",
            )
    elif not requested and not topics and seen_topic.topic is not None:
        all_topics = "null" if message.version else "an empty list"
        yield Problem(
            f"Metadata v{message.version} requested all topics ({all_topics}) but got none, "
            f"though {seen_topic.topic!r} existed before",
            **locate(message, "topics"),
            hint=f"in this version, {all_topics} requests all topics; unless topics were deleted, the server mistakes "
            "it for none",
            severity=Severity.INFO,
        )
    if topics and topics[0].get("error_code") == 0 and (name := topics[0].get("name")):
        seen_topic.topic = name
