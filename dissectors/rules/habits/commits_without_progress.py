"""S092: a consumer that commits the same offsets again and again."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.commit_habits import CommitHabits
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState

#: The maximum share of commits that move an offset.
_MAX_MOVING_SHARE = 0.1

RATE = Limit("rate", 2, "commits", "commits move no offset on, and there are at least so many per second")


@rule(
    "S092",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("OffsetCommit",),
    needs=(CommitHabits,),
    limits=(RATE,),
    since="0.1",
    blame="client",
)
def commits_without_progress(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports consumers that commit frequently without having read anything since their last commit.

    ## Why it matters
    Each commit is a record in `__consumer_offsets`, which is replicated and compacted, and a round trip for the
    consumer. A commit that moves no offset is wasted.

    ## Usual cause
    A commit after each poll, even if the poll returned no records. Or a consumer without progress, which reads the
    same records again (S065 and others report the reason if it is visible). Commits are judged in groups of the
    size that the limit `commits` of S091 sets.

    ## Example
    ```story
    rule S091:commits=3
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 7}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 7}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 7}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 7}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    ```

    ## Look-alikes
    Automatic commits, which repeat the offsets every few seconds:
    ```story
    rule S091:commits=3
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 7}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +5s
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 7}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +5s
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 7}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +5s
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 7}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_auto.commit.interval.ms
    """
    window = connection.run.state(CommitHabits).window
    if window is None or window.offset_moves > _MAX_MOVING_SHARE * window.commits:
        return
    elapsed = max(window.ns, 1)
    if window.commits * SECOND >= connection.run.limit(RATE) * elapsed:
        yield Problem(
            f"{window.commits - window.offset_moves} of {window.commits} commits that {client_label(connection)} sent "
            f"for group {window.group!r} within {duration(elapsed)} moved no offset",
            hint="commit only after a poll that returned records",
            cause=window.group,
        )
