"""S011: a topic that a Metadata request created."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.state import ConnectionState

#: The errors that a broker returns for a topic that it is about to create.
_BEING_CREATED = (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.LEADER_NOT_AVAILABLE)

#: A topic that appears within this time (ns) after the request counts as created by it.
MAX_DELAY = 10 * 1_000_000_000
MAX_TOPICS = 10_000


class _Topics:
    """Topics by name, each with a time (ns).

    `missing`: topics that did not exist when a client requested them with auto-creation. `created`: topics that a
    CreateTopics request named; a broker that has not learned of them yet reports that they do not exist.
    """

    def __init__(self) -> None:
        self.missing: BoundedDict[str, int] = BoundedDict(MAX_TOPICS)
        self.created: BoundedDict[str, int] = BoundedDict(MAX_TOPICS)


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
    The topic gets the broker's default number of partitions and replicas, usually one of each. A mistyped name also
    creates a topic.

    ## Usual cause
    A producer, or a consumer that allows auto-creation, started before its topic was created.
    `auto.create.topics.enable` is on by default. Before Metadata v4, a client cannot ask the broker not to create
    topics.

    ## Example
    ```story
    > Metadata v8 {"topics": [{"name": "oders"}], "allow_auto_topic_creation": true}
    < {"topics": [{"name": "oders", "error_code": 3}]}
    +100ms
    > Metadata v8 {"topics": [{"name": "oders"}], "allow_auto_topic_creation": true}
    < {"brokers": [{"node_id": 1}], "topics": [{"name": "oders", "partitions": [{"leader_id": 1}]}]}
    ```

    ## Look-alikes
    Another client creates it explicitly:
    ```story
    > Metadata v8 {"topics": [{"name": "orders"}], "allow_auto_topic_creation": true}
    < {"topics": [{"name": "orders", "error_code": 3}]}
    2> CreateTopics v5 {"topics": [{"name": "orders", "num_partitions": 6}]}
    2< {"topics": [{"name": "orders"}]}
    > Metadata v8 {"topics": [{"name": "orders"}], "allow_auto_topic_creation": true}
    < {"brokers": [{"node_id": 1}], "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    ```
    The topic was created explicitly, and one broker learns of it later than another:
    ```story
    > CreateTopics v5 {"topics": [{"name": "orders", "num_partitions": 6}]}
    < {"topics": [{"name": "orders"}]}
    2> Metadata v8 {"topics": [{"name": "orders"}], "allow_auto_topic_creation": true}
    2< {"topics": [{"name": "orders", "error_code": 3}]}
    +100ms
    2> Metadata v8 {"topics": [{"name": "orders"}], "allow_auto_topic_creation": true}
    2< {"brokers": [{"node_id": 1}], "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    ```
    The client does not allow auto-creation:
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
    topics = connection.run.state(_Topics)
    missing, created = topics.missing, topics.created
    if isinstance(event, RequestReceived):
        if message.api == "CreateTopics" and not message.body.get("validate_only"):
            for topic in message.body["topics"] or ():
                missing.pop(topic["name"], None)
                created[topic["name"]] = event.at
        return
    if (
        message.api != "Metadata"
        or event.request is None
        or (request_body := event.request_body) is None
        or not request_body.get("topics")
    ):
        return
    for index, topic in enumerate(message.body["topics"] or ()):
        name = topic.get("name")
        if topic["error_code"] in _BEING_CREATED and not topic["partitions"]:
            created_at = created.get(name or "")
            if created_at is not None and event.at - created_at <= MAX_DELAY:
                continue
            if name and request_body.get("allow_auto_topic_creation", True):
                missing[name] = event.at
        elif missing and topic["error_code"] == 0 and (missing_at := missing.pop(name or "", None)) is not None:
            if event.at - missing_at > MAX_DELAY:
                continue
            count = len(topic["partitions"] or ())
            yield Problem(
                f"topic {name!r} did not exist and now does, with {count} partition{'s' * (count != 1)}: a "
                "Metadata request with allow_auto_topic_creation most likely created it",
                **locate(message, "topics", index, "name"),
                hint="create topics beforehand, and disable auto.create.topics.enable of the brokers or "
                "allow.auto.create.topics of the client",
                cause=name or "",
            )
