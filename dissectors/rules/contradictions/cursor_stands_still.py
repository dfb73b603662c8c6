"""S082: a page of DescribeTopicPartitions that leads to itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule(
    "S082",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("DescribeTopicPartitions",),
    since="0.1",
    blame="broker",
)
def cursor_stands_still(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that the next cursor of DescribeTopicPartitions lies after the cursor of the request.

    ## Why it matters
    A client requests page after page until there is no next cursor. If the cursor does not advance, it requests the
    same page forever.

    ## Usual cause
    A server that returns the cursor of the request, or a gateway that renames topics in the list but not in the cursor.
    Topics are sorted by name, so the next cursor has a later partition, or a later topic.

    ## Example
    ```story
    > DescribeTopicPartitions v0 {"topics": [{"name": "t"}], "response_partition_limit": 2,
       "cursor": {"topic_name": "t", "partition_index": 2}}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 2}, {"partition_index": 3}]}],
       "next_cursor": {"topic_name": "t", "partition_index": 2}}
    ```

    ## Look-alikes
    ```story
    > DescribeTopicPartitions v0 {"topics": [{"name": "t"}, {"name": "u"}], "response_partition_limit": 2,
       "cursor": {"topic_name": "t", "partition_index": 2}}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 2}, {"partition_index": 3}]}],
       "next_cursor": {"topic_name": "u", "partition_index": 0}}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-966%3A+Eligible+Leader+Replicas
    https://github.com/kroxylicious/kroxylicious/issues/1364
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or message.diagnosis is not None:
        return
    cursor, next_cursor = request_body.get("cursor"), message.body.get("next_cursor")
    if cursor and next_cursor and _cursor_position(next_cursor) <= _cursor_position(cursor):
        yield Problem(
            f"next_cursor is {_cursor_text(next_cursor)}, but the request began at {_cursor_text(cursor)}: the client "
            "requests the same page forever",
            **locate(message, "next_cursor"),
            hint="fix the server: next_cursor names the first partition that the response does not have, or is null",
            expected=f"a partition after {_cursor_text(cursor)}, or null",
            got=_cursor_text(next_cursor),
        )


def _cursor_position(cursor: Mapping[str, Any]) -> tuple[str, int]:
    return cursor.get("topic_name") or "", cursor.get("partition_index", 0)


def _cursor_text(cursor: Mapping[str, Any]) -> str:
    name, partition = _cursor_position(cursor)
    return f"{name}[{partition}]"
