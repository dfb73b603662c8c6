"""S093: OffsetFetch says that nothing is committed, although the group has just committed."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.rules.helpers.fetched_offsets import fetched_groups
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.commits import Commits, commit_key
from dissectors.trackers.partitions import topic_name_or_id
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState

#: Commits older than this (ns) may have expired.
_MAX_AGE = 3600 * SECOND
_NO_OFFSET = -1


@rule(
    "S093",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("OffsetFetch",),
    needs=(Commits,),
    since="0.1",
    blame="broker",
)
def committed_offset_lost(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that OffsetFetch returns an offset if the group has committed one within the last hour.

    ## Why it matters
    -1 means that nothing is committed: the consumer begins where auto.offset.reset says. It reads all records again, or
    skips those that it has not read.

    ## Usual cause
    A broker or gateway that acknowledges commits before it stores them, keeps them only in memory, or looks up another
    partition of the coordinator's state. The response is right if somebody deleted the offsets, the group or the topic
    in the meantime, unseen by kproxy.

    ## Example
    ```story
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 5}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    < {"topics": [{"name": "orders", "partitions": [{"committed_offset": -1}]}]}
    ```
    ```story
    > OffsetCommit v8 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 5}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    > OffsetFetch v8 {"groups": [{"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}]}
    < {"groups": [{"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": -1}]}]}]}
    ```

    ## Look-alikes
    Another group or partition, a refused commit, and offsets that were deleted with their topic:
    ```story
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"committed_offset": 5}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    > OffsetFetch v5 {"group_id": "h", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    < {"topics": [{"name": "orders", "partitions": [{"committed_offset": -1}]}]}
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [1]}]}
    < {"topics": [{"name": "orders", "partitions": [{"partition_index": 1, "committed_offset": -1}]}]}
    > OffsetCommit v7 {"group_id": "k", "topics": [{"name": "orders", "partitions": [{"committed_offset": 5}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"error_code": 25}]}]}
    > OffsetFetch v5 {"group_id": "k", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    < {"topics": [{"name": "orders", "partitions": [{"committed_offset": -1}]}]}
    > DeleteTopics v4 {"topic_names": ["orders"]}
    < {"responses": [{"name": "orders"}]}
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    < {"topics": [{"name": "orders", "partitions": [{"committed_offset": -1}]}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_OffsetFetch
    https://kafka.apache.org/documentation/#brokerconfigs_offsets.retention.minutes
    """
    message, request = event.message, event.request
    if message is None or request is None or message.diagnosis is not None or message.body.get("error_code"):
        return
    commits = connection.run.state(Commits)
    for group, topics, path in fetched_groups(message.body, event.request_body or {}):
        for i, topic in enumerate(topics):
            for j, row in enumerate(topic.get("partitions") or ()):
                if row.get("committed_offset") != _NO_OFFSET or row.get("error_code"):
                    continue
                key = commit_key(group, (topic_name_or_id(topic), row.get("partition_index", 0)), connection)
                commit = commits.last(key)
                if commit is None or commit.offset < 0 or not 0 < request.at - commit.at < _MAX_AGE:
                    continue
                elapsed = duration(request.at - commit.at)
                yield Problem(
                    f"OffsetFetch returns {_NO_OFFSET} (nothing committed) for {key[1]}[{key[2]}] of group {group!r}, "
                    f"but the broker acknowledged its commit of {commit.offset} {elapsed} before",
                    hint="unless somebody deleted the offsets, the group or the topic since, fix the broker: it must "
                    "store a commit before it acknowledges it; the consumer begins at auto.offset.reset",
                    expected=f"{commit.offset}",
                    got=str(_NO_OFFSET),
                    cause=group,
                    **locate(message, *path, "topics", i, "partitions", j, "committed_offset"),
                )
