"""L021: null for empty or empty for null, where one means all topics and the other none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@dataclass(slots=True)
class _Seen:
    """A topic that this connection was told about: the client may see it."""

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
    """Checks that a Metadata request for all topics gets topics, and one for none gets none.

    ## Why it matters
    In version 0 an empty list asks for all topics. From version 1 on null asks for all, and an empty list for none. Who
    confuses the two has clients that see no topics at all ("received 0 topics in all metadata request"), or brokers
    that send the whole cluster to every client that only wants to know the brokers.

    ## Usual cause
    A server that treats null and empty alike. The same mistake in a client cannot be told from its bytes: from
    version 1 on an empty list is right for whoever wants the brokers only. A cluster whose topics were deleted, or may
    not be seen any more, looks like the second example, so that is for information.

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

    ## Looks alike
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
    message, asked = event.message, event.asked
    if message is None or asked is None or "topics" not in asked:
        return
    wanted, topics, seen = asked["topics"], message.body.get("topics") or (), connection.state(_Seen)
    if wanted == [] and message.version > 0:
        if topics:
            yield Problem(
                f"Metadata v{message.version} asked for no topics (an empty list) and was answered with {len(topics)}",
                **locate(message, "topics"),
                hint="from version 1 on only null asks for all topics; answer an empty list with an empty list",
                expected="no topics",
                got=f"{len(topics)} topics",
            )
    elif not wanted and not topics and seen.topic is not None:
        how = "null" if message.version else "an empty list"
        yield Problem(
            f"Metadata v{message.version} asked for all topics ({how}) and was answered with none, "
            f"though {seen.topic!r} was there before",
            **locate(message, "topics"),
            hint=f"in this version {how} asks for all; if no topic was deleted the server takes it for none",
            severity=Severity.INFO,
        )
    if topics and topics[0].get("error_code") == 0 and (name := topics[0].get("name")):
        seen.topic = name
