"""S011: a topic that came to be because a client asked for it."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState

#: What a broker says of a topic that it is about to create: UNKNOWN_TOPIC_OR_PARTITION, or LEADER_NOT_AVAILABLE.
_NOT_YET = (3, 5)

#: A topic that appears within this time of the question was made by it (ns).
SOON = 10 * 1_000_000_000
MAX_TOPICS = 10_000


class _Unknown:
    """Topics that did not exist when a client asked for them in a way that creates them, and when."""

    def __init__(self) -> None:
        self.since: BoundedDict[str, int] = BoundedDict(MAX_TOPICS)


@rule(
    "S011",
    severity=Severity.INFO,
    events=(RequestReceived, ResponseReceived),
    apis=("Metadata", "CreateTopics"),
    since="0.1",
    blame="client",
)
def auto_create_surprise(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a Metadata request from a client created a topic.

    ## Why it matters
    The topic gets the broker's default number of partitions and replicas, usually one of each. A mistyped name creates
    a topic too.

    ## Usual cause
    A producer, or a consumer that allows it, started before its topic was created. `auto.create.topics.enable` is on
    by default. Before Metadata v4, a client cannot ask the broker not to create topics.

    ## Example
    ```story
    > Metadata v8 {"topics": [{"name": "oders"}], "allow_auto_topic_creation": true}
    < {"topics": [{"name": "oders", "error_code": 3}]}
    +100ms
    > Metadata v8 {"topics": [{"name": "oders"}], "allow_auto_topic_creation": true}
    < {"brokers": [{"node_id": 1}], "topics": [{"name": "oders", "partitions": [{"leader_id": 1}]}]}
    ```

    ## Looks alike
    Somebody creates it:
    ```story
    > Metadata v8 {"topics": [{"name": "orders"}], "allow_auto_topic_creation": true}
    < {"topics": [{"name": "orders", "error_code": 3}]}
    2> CreateTopics v5 {"topics": [{"name": "orders", "num_partitions": 6}]}
    2< {"topics": [{"name": "orders"}]}
    > Metadata v8 {"topics": [{"name": "orders"}], "allow_auto_topic_creation": true}
    < {"brokers": [{"node_id": 1}], "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    ```
    The client does not allow it:
    ```story
    > Metadata v8 {"topics": [{"name": "orders"}], "allow_auto_topic_creation": false}
    < {"topics": [{"name": "orders", "error_code": 3}]}
    > Metadata v8 {"topics": [{"name": "orders"}], "allow_auto_topic_creation": false}
    < {"brokers": [{"node_id": 1}], "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#brokerconfigs_auto.create.topics.enable
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-361%3A+Add+Consumer+Configuration+to+Disable+Auto+Topic+Creation
    """
    message = event.message
    if message is None or message.diagnosis is not None:
        return
    unknown = connection.run.state(_Unknown).since
    if isinstance(event, RequestReceived):
        if unknown and message.api == "CreateTopics":
            for topic in message.body["topics"] or ():
                unknown.pop(topic["name"], None)
        return
    if (
        message.api != "Metadata"
        or event.request is None
        or (asked := event.request_body) is None
        or not asked.get("topics")
    ):
        return
    for index, topic in enumerate(message.body["topics"] or ()):
        name = topic.get("name")
        if topic["error_code"] in _NOT_YET and not topic["partitions"]:
            if name and asked.get("allow_auto_topic_creation", True):
                unknown[name] = event.at
        elif unknown and topic["error_code"] == 0 and (since := unknown.pop(name or "", None)) is not None:
            if event.at - since > SOON:
                continue
            count = len(topic["partitions"] or ())
            yield Problem(
                f"topic {name!r} did not exist and now does, with {count} partition{'s' * (count != 1)}: asking for "
                "its Metadata with allow_auto_topic_creation most likely created it",
                **locate(message, "topics", index, "name"),
                hint="create topics beforehand, and disable auto.create.topics.enable of the brokers or "
                "allow.auto.create.topics of the client",
                cause=name or "",
            )
