"""S091: a consumer that commits after each record."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.commit_habits import COMMITS, CommitHabits
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState

RECORDS = Limit("records", 2, "records", "each moves offsets on by fewer records than this, on average")
RATE = Limit("rate", 10, "commits", "and there are at least so many per second")

#: The minimum number of commits per fetch: a consumer that commits after each fetch has no more records to commit.
_MIN_COMMITS_PER_FETCH = 2

#: The minimum share of commits that move an offset; S092 covers the other case.
_MIN_MOVING_SHARE = 0.9


@rule(
    "S091",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("OffsetCommit",),
    needs=(CommitHabits,),
    limits=(COMMITS, RECORDS, RATE),
    complete_for=60,
    since="0.1",
    blame="client",
)
def commit_per_record(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that consumers commit offsets once per poll, not once per record.

    ## Why it matters
    Each commit is a record in `__consumer_offsets`, replicated and compacted. A consumer that waits for each commit
    processes one record per round trip.

    ## Usual cause
    A synchronous commit in the loop over the records, instead of after it. It rarely helps: after a crash, the records
    since the last commit are processed again, so processing has to tolerate that anyway.

    It is reported only if the member's client sent more than twice as many commits as it got Fetch responses with
    records.

    ## Example
    ```story
    rule S091:commits=3
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 2}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 3}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 4}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    ```

    ## Look-alikes
    A member that commits occasionally, and one that commits many records each time:
    ```story
    rule S091:commits=3
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +1s
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 2}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +1s
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 3}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +1s
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 4}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    ```
    ```story
    rule S091:commits=3
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 50}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 100}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 150}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 200}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_enable.auto.commit
    https://docs.confluent.io/platform/current/clients/consumer.html#offset-management
    """
    window = connection.run.state(CommitHabits).window
    if window is None or window.records <= 0 or window.offset_moves < _MIN_MOVING_SHARE * window.commits:
        return
    run, elapsed = connection.run, max(window.ns, 1)
    if (
        window.records < window.commits * run.limit(RECORDS)
        and window.commits * SECOND >= run.limit(RATE) * elapsed
        and window.fetches * _MIN_COMMITS_PER_FETCH < window.commits
    ):
        yield Problem(
            f"{client_label(connection)} sent {window.commits} commits for {window.records} records of group "
            f"{window.group!r} within {duration(elapsed)}",
            hint="commit once per poll, after the loop over its records, or leave it to enable.auto.commit",
            cause=window.group,
        )
