"""H009: a consumer whose commits are further apart than its session timeout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.commits import Commits
from dissectors.trackers.fetches import FetchesByClient
from dissectors.trackers.members import Members
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

COMMITS = Limit("commits", 3, "commits", "so many commits in a row of a member")
FETCHES = Limit("fetches", 10, "fetches", "come later than its session timeout, after so many fetches with records")

_MAX_MEMBERS = 10_000


@dataclass(slots=True)
class _LastCommit:
    """When a member last committed (ns), the fetches of its client by then, and its late commits in a row."""

    at: int
    fetches: int
    late: int = 0
    records: int = 0
    since: int = 0


class _LastCommits(BoundedDict[tuple[str, str], _LastCommit]):
    """The last commits by group and member id."""

    def __init__(self) -> None:
        super().__init__(_MAX_MEMBERS)


@rule(
    "H009",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("OffsetCommit",),
    needs=(Commits, FetchesByClient, Members),
    limits=(COMMITS, FETCHES),
    complete_for=300,
    since="0.1",
    blame="client",
)
def rare_commits(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports group members that read continuously but whose commits are further apart than their session timeout.

    ## Why it matters
    If the member crashes, its partitions move after the session timeout, and all records since its last commit are
    processed a second time.

    ## Usual cause
    `auto.commit.interval.ms` of minutes, or a program that commits on a timer. A member that gets few records has
    little to commit: it is reported only if its client got records in many fetches between two commits.

    ## Example
    ```story
    rule H009:commits=2,fetches=1
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m"}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +30s
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 2,
      "records": [{"base_offset": 1, "records": [{"value": "v"}]}]}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 2}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +30s
    > Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 2}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 3,
      "records": [{"base_offset": 2, "records": [{"value": "v"}]}]}]}]}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 3}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    ```

    ## Look-alikes
    A member that had nothing to read in the meantime:
    ```story
    rule H009:commits=2,fetches=1
    > JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    < {"generation_id": 1, "member_id": "m"}
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +30s
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    +30s
    > OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t",
      "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    < {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_auto.commit.interval.ms
    """
    request_body, run = event.request_body, connection.run
    member = (
        run.state(Members).find(request_body.get("group_id"), request_body.get("member_id")) if request_body else None
    )
    if member is None or not member.session:
        return
    fetches = run.state(FetchesByClient).for_client(client_key(connection)).with_records
    last_commit = run.state(_LastCommits).touch((member.group, member.id), lambda: _LastCommit(event.at, fetches))
    advance = run.state(Commits).advance or 0
    if (
        event.at - last_commit.at > member.session
        and fetches - last_commit.fetches >= run.limit(FETCHES)
        and advance > 0
    ):
        last_commit.since = last_commit.since or last_commit.at
        last_commit.late += 1
        last_commit.records += advance
    elif event.at > last_commit.at:
        last_commit.late = last_commit.records = last_commit.since = 0
    last_commit.at, last_commit.fetches = event.at, fetches
    if last_commit.late >= run.limit(COMMITS):
        pause = duration((event.at - last_commit.since) // last_commit.late)
        yield Problem(
            f"{client_label(connection)} commits every {pause}, rarer than its session timeout in group "
            f"{member.group!r}, {duration(member.session)}: after a crash, about "
            f"{last_commit.records // last_commit.late:,} records are read again",
            hint="lower auto.commit.interval.ms (the default is 5 s), or commit after each poll",
            cause=member.group,
        )
        last_commit.late = last_commit.records = last_commit.since = 0
