"""S099: a broker that accepts the creation of a topic which, according to itself, exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.bounded import MAX_NAME_LENGTH, BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState

_MAX_TOPICS = 10_000

#: Within this time (ns), somebody else has hardly created or deleted the topic in between.
_TOGETHER_WITHIN = 30 * SECOND


class _Answer(NamedTuple):
    """The latest answer to a CreateTopics request for a topic: whether the topic exists since then, and the time."""

    exists: bool
    at: int


class _Topics(BoundedDict[tuple[str, str], _Answer]):
    """The latest answers, by server and topic."""

    def __init__(self) -> None:
        super().__init__(_MAX_TOPICS)


@rule(
    "S099",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("CreateTopics", "DeleteTopics"),
    since="0.1",
    blame="broker",
)
def existing_topic_accepted(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a broker does not accept the creation of a topic that exists, also if it only validates the request.

    ## Why it matters
    Tools send `validate_only` to show what they would do. If the answer is wrong, the change fails when it is made.

    ## Usual cause
    A server that checks the names and numbers of a request with `validate_only`, but not whether the topic exists. If
    the broker refuses the topic only after it had accepted it, another client may have created it within those seconds;
    only answers within 30 s are compared.

    ## Example
    ```story
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]}
    < {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]}
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "validate_only": true}
    < {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]}
    ```
    ```story
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "validate_only": true}
    < {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]}
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]}
    < {"topics": [{"name": "t", "error_code": 36}]}
    ```

    ## Look-alikes
    The usual order, and a topic that was deleted in between:
    ```story
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "validate_only": true}
    < {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]}
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]}
    < {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]}
    > DeleteTopics v3 {"topic_names": ["t"]}
    < {"responses": [{"name": "t"}]}
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "validate_only": true}
    < {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]}
    ```

    ## Sources
    https://github.com/redpanda-data/redpanda/issues/7946
    https://github.com/apache/kafka/blob/trunk/metadata/src/main/java/org/apache/kafka/controller/ReplicationControlManager.java
    """
    message, request_body, topics = event.message, event.request_body, connection.run.state(_Topics)
    if message is None or request_body is None or message.diagnosis is not None:
        return
    if message.api == "DeleteTopics":
        topics.clear()
        return
    is_validation = bool(request_body.get("validate_only"))
    for index, topic in enumerate(message.body.get("topics") or ()):
        code, name = topic.get("error_code", 0), topic.get("name") or ""
        if code not in (0, Error.TOPIC_ALREADY_EXISTS):
            continue
        key = connection.server, name[:MAX_NAME_LENGTH]
        previous, topics[key] = topics.get(key), _Answer(code != 0 or not is_validation, event.at)
        if previous is None or event.at - previous.at >= _TOGETHER_WITHIN:
            continue
        is_accepted_again = code == 0 and is_validation and previous.exists
        is_refused_later = code != 0 and not previous.exists
        if not (is_accepted_again or is_refused_later):
            continue
        elapsed = duration(event.at - previous.at)
        text = (
            f"the broker accepts the creation of topic {name!r} with validate_only, but {elapsed} ago it said that the"
            " topic exists"
            if is_accepted_again
            else f"the broker says that topic {name!r} exists, but {elapsed} ago it accepted its creation with"
            " validate_only"
        )
        yield Problem(
            text,
            **locate(message, "topics", index, "error_code"),
            hint="fix the broker: with validate_only, too, it must refuse a topic that exists",
            cause=name,
        )
