"""H019: a client that is not a member commits for a group that has members."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.members import Members
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

COMMITS = Limit("commits", 5, "commits", "a client that is no member commits so often for a group with members")

_MAX_CLIENTS = 10_000
_NO_GENERATION = -1


class _CommitCount:
    """How many commits a client has sent since `since` (ns)."""

    def __init__(self) -> None:
        self.count = self.since = 0


class _CommitCounts(BoundedDict[tuple[str, str, str | None], _CommitCount]):
    """The commit counts by group, host and client id."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "H019",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("OffsetCommit",),
    needs=(Members,),
    limits=(COMMITS,),
    since="0.1",
    blame="client",
)
def commits_beside_group(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that clients that assign partitions themselves do not commit for a group that has members.

    ## Why it matters
    While the group has members, the coordinator refuses such commits (UNKNOWN_MEMBER_ID). While it has none, it accepts
    them, and returning members continue from those offsets: records are skipped, or read twice.

    ## Usual cause
    Two programs with one `group.id`: one subscribes, the other calls `assign` and commits. Or a tool that resets
    offsets while the group runs.

    ## Example
    ```story
    rule H019:commits=2
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000}
    < {"generation_id": 1, "member_id": "m"}
    2> as other OffsetCommit v7 {"group_id": "g", "member_id": "", "generation_id_or_member_epoch": -1,
      "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    2< {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 25}]}]}
    2> as other OffsetCommit v7 {"group_id": "g", "member_id": "", "generation_id_or_member_epoch": -1,
      "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 2}]}]}
    2< {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 25}]}]}
    ```

    ## Look-alikes
    A group without members that is only used to store offsets:
    ```story
    rule H019:commits=2
    > OffsetCommit v7 {"group_id": "g", "member_id": "", "generation_id_or_member_epoch": -1,
      "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "", "generation_id_or_member_epoch": -1,
      "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 2}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    ```

    ## Sources
    https://kafka.apache.org/43/javadoc/org/apache/kafka/clients/consumer/KafkaConsumer.html
    """
    body, run = event.message.body, connection.run
    generation = body.get("generation_id_or_member_epoch", _NO_GENERATION)
    if body.get("member_id") or generation != _NO_GENERATION:
        return
    group = body.get("group_id") or ""
    members = run.state(Members)
    if not members.has_members(group, event.at):
        return
    commits = run.state(_CommitCounts).touch((group, *client_key(connection)), _CommitCount)
    commits.since = event.at if commits.count == 0 else commits.since
    commits.count += 1
    if commits.count >= run.limit(COMMITS):
        count, commits.count = commits.count, 0
        yield Problem(
            f"{client_label(connection)} sent {count} commits for group {group!r} within "
            f"{duration(event.at - commits.since)}"
            " without being a member, while the group has members",
            hint="give the program that assigns partitions itself a group.id of its own, or let it subscribe",
            cause=group,
        )
