"""S071: Metadata that lists a broker, topic or partition twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule("S071", severity=Severity.WARNING, events=(ResponseReceived,), apis=("Metadata",), since="0.1", blame="broker")
def metadata_twice(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a Metadata response lists each broker, topic and partition once.

    ## Why it matters
    Clients index the entries by node id, name and partition index: the last entry wins, or the first, or the client
    fails with a duplicate key. If the entries differ, it depends on the client which leader it uses.

    ## Usual cause
    A gateway that merges the responses of several brokers, a request that names a topic twice (also by name and by id),
    or a loop that adds an entry for each replica.

    ## Example
    ```story
    > Metadata v9 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"leader_id": 1}]}, {"name": "t", "partitions": [{"leader_id": 1}]}]}
    ```
    ```story
    > Metadata v9 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 0}]}]}
    ```

    ## Look-alikes
    ```story
    > Metadata v9 {"topics": [{"name": "t"}, {"name": "u"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}, {"node_id": 2, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 1}]},
                  {"name": "u", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_Metadata
    """
    message = event.message
    if message is None or message.diagnosis is not None or event.request_body is None:
        return
    topics = message.body["topics"] or ()
    entry_lists: list[tuple[tuple[str | int, ...], Any, str, str]] = [
        (("brokers",), message.body["brokers"] or (), "node_id", "broker "),
        *(
            (
                ("topics", i, "partitions"),
                topic["partitions"] or (),
                "partition_index",
                f"partition {topic['name'] or topic.get('topic_id')}/",
            )
            for i, topic in enumerate(topics)
        ),
    ]
    if _has_unique_topics(event.request_body):
        entry_lists.append((("topics",), topics, "name", "topic "))
    for path, rows, key, label in entry_lists:
        if (index := _duplicate_index(rows, key)) is not None:
            yield Problem(
                f"the Metadata response has {label}{rows[index][key]} twice",
                **locate(message, *path, index, key),
                hint="fix the server: each broker, topic and partition has one entry",
            )


def _has_unique_topics(request_body: dict[str, Any] | None) -> bool:
    """Whether a request names each topic once, so that the response has no reason to list one twice."""
    names = [topic.get("name") for topic in (request_body or {}).get("topics") or ()]
    return None not in names and len(names) == len(set(names))


def _duplicate_index(rows: Any, key: str) -> int | None:
    """Return the index of the first entry with the key of an earlier entry, or None. A key of None does not count."""
    keys = [row[key] for row in rows]
    if len(set(keys)) == len(keys):
        return None
    earlier_keys: set[Any] = set()
    for index, value in enumerate(keys):
        if value is not None and value in earlier_keys:
            return index
        earlier_keys.add(value)
    return None
