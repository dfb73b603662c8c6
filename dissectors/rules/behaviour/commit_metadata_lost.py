"""S042: commit metadata that OffsetFetch does not return."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.rules.helpers.fetched_offsets import fetched_groups
from dissectors.trackers.commits import Commits, commit_key
from dissectors.trackers.partitions import topic_name_or_id
from dissectors.trackers.state import ConnectionState


@rule(
    "S042",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("OffsetFetch",),
    needs=(Commits,),
    since="0.1",
    blame="broker",
)
def commit_metadata_lost(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that OffsetFetch returns the metadata that was committed with the offset.

    ## Why it matters
    Kafka Streams stores its stream time in this metadata; other clients store a host, a checksum or a position within a
    batch. Without it, they silently start from scratch after a restart.

    ## Usual cause
    A broker or gateway that stores only the offset.

    ## Example
    ```story
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions":
        [{"committed_offset": 5, "committed_metadata": "AQ=="}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    < {"topics": [{"name": "orders", "partitions": [{"committed_offset": 5, "metadata": ""}]}]}
    ```

    ## Look-alikes
    ```story
    > OffsetCommit v7 {"group_id": "g", "topics": [{"name": "orders", "partitions":
        [{"committed_offset": 5, "committed_metadata": "AQ=="}]}]}
    < {"topics": [{"name": "orders", "partitions": [{}]}]}
    > OffsetFetch v5 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    < {"topics": [{"name": "orders", "partitions": [{"committed_offset": 5, "metadata": "AQ=="}]}]}
    > OffsetFetch v5 {"group_id": "h", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    < {"topics": [{"name": "orders", "partitions": [{"committed_offset": 5, "metadata": ""}]}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_OffsetCommit
    https://github.com/nisshi-io/nisshi/blob/main/compat/librdkafka/FINDINGS.md
    """
    message, request = event.message, event.request
    if message is None or request is None:
        return
    commits = connection.run.state(Commits)
    for group, topics, path in fetched_groups(message.body, event.request_body or {}):
        for i, topic in enumerate(topics):
            for j, row in enumerate(topic.get("partitions") or ()):
                key = commit_key(group, (topic_name_or_id(topic), row.get("partition_index", 0)), connection)
                commit = commits.last(key)
                if commit is None or commit.at >= request.at or commit.offset != row.get("committed_offset"):
                    continue
                metadata = row.get("metadata") or ""
                if row.get("error_code") or not commit.metadata or metadata == commit.metadata:
                    continue
                yield Problem(
                    f"group {group!r} committed offset {commit.offset} of {key[1]}[{key[2]}] with metadata of "
                    f"{len(commit.metadata)} characters, but OffsetFetch returns {len(metadata) or 'none'}",
                    hint="fix the broker: it must store the metadata with the offset",
                    expected=f"{len(commit.metadata)} characters",
                    got=f"{len(metadata)} characters" if metadata else "none",
                    cause=group,
                    **locate(message, *path, "topics", i, "partitions", j, "metadata"),
                )
