"""S083: a topic that was created with an unknown number of partitions."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState

_FIELDS = ("num_partitions", "replication_factor")


@rule(
    "S083",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("CreateTopics",),
    versions=range(5, 1 << 15),
    since="0.1",
    blame="broker",
)
def created_without_counts(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a CreateTopics response has the number of partitions and replicas of each topic that was created.

    ## Why it matters
    Since version 5, the response says what the broker has chosen where the request says -1 (KIP-525). Tools show these
    numbers, or plan with them.

    ## Usual cause
    A server that returns the values of the request. Kafka returns -1 only if the topic was not created, or if the
    client may not describe its configuration (topic_config_error_code).

    ## Example
    ```story
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": -1, "replication_factor": -1}]}
    < {"topics": [{"name": "t", "error_code": 0, "num_partitions": -1, "replication_factor": -1}]}
    ```

    ## Look-alikes
    ```story
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": -1, "replication_factor": -1}]}
    < {"topics": [{"name": "t", "error_code": 36, "num_partitions": -1, "replication_factor": -1}]}
    > CreateTopics v5 {"topics": [{"name": "u", "num_partitions": -1, "replication_factor": -1}]}
    < {"topics": [{"name": "u", "topic_config_error_code": 29, "num_partitions": -1, "replication_factor": -1}]}
    > CreateTopics v5 {"topics": [{"name": "v", "num_partitions": -1, "replication_factor": -1}]}
    < {"topics": [{"name": "v", "num_partitions": 3, "replication_factor": 1}]}
    ```

    ## Sources
    https://github.com/redpanda-data/redpanda/issues/15722
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-525+-+Return+topic+metadata+and+configs+in+CreateTopics+response
    """
    message = event.message
    if message is None or message.diagnosis is not None:
        return
    for index, topic in enumerate(message.body.get("topics") or ()):
        if topic.get("error_code") or topic.get("topic_config_error_code"):
            continue
        if missing := [name for name in _FIELDS if topic.get(name, 1) < 0]:
            yield Problem(
                f"topic {topic.get('name')} was created, but {' and '.join(missing)} of the response "
                f"{'are' if len(missing) > 1 else 'is'} -1",
                **locate(message, "topics", index, missing[0]),
                hint="fix the broker: return the numbers of the topic that it has created",
                expected="1 or more",
                got="-1",
            )
