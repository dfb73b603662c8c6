"""G016: the coordinator tells members of a streams group why it has no tasks for them (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from dissectors.bounded import MAX_NAME_LENGTH, BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.plain_text import printable_text
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import client_address_label

_MAX_GROUPS = 1_000
_MAX_DETAIL = 500


class _Status(NamedTuple):
    """A status: its name and meaning, what to change, how long it may last (ns), and whether it concerns one member."""

    name: str
    meaning: str
    hint: str
    grace_period: int = 0
    per_member: bool = False
    blame: str = "client"


_STALE, _SHUTDOWN = 0, 4
_STATUSES: Final = {
    _STALE: _Status(
        "STALE_TOPOLOGY",
        "its topology has another epoch than the group's, so it gets no new tasks",
        "finish the rollout: run one version of the application, with the same topology, in all instances; after a "
        "change of the topology, raise its epoch",
        60 * SECOND, per_member=True,
    ),
    1: _Status(
        "MISSING_SOURCE_TOPICS", "source topics of the topology do not exist, so the group has no tasks",
        "create the topics that the broker names, or correct their names in the application; it gets tasks then",
    ),
    2: _Status(
        "INCORRECTLY_PARTITIONED_TOPICS",
        "topics that are joined have different numbers of partitions, so the group has no tasks",
        "give the topics that the broker names the same number of partitions, or repartition() one of them",
    ),
    3: _Status(
        "MISSING_INTERNAL_TOPICS",
        "changelog or repartition topics do not exist: the coordinator creates them, and has not succeeded",
        "check that the broker may create topics (its log; CREATE on the topics for the application's principal; "
        "enough brokers for their replication factor)",
        15 * SECOND, blame="broker",
    ),
    _SHUTDOWN: _Status(
        "SHUTDOWN_APPLICATION", "an instance has requested the shutdown of the whole application",
        "look for the exception in the log of the instance that requested it: its handler returned "
        "SHUTDOWN_APPLICATION",
    ),
    5: _Status(
        "ASSIGNMENT_DELAYED", "the coordinator has not assigned tasks yet",
        "it waits for group.streams.initial.rebalance.delay.ms; check the coordinator's log if it lasts longer",
        30 * SECOND, blame="broker",
    ),
    6: _Status(
        "MISSING_CLIENT_TAGS", "members lack client tags that the assignment of standby tasks needs",
        "set the same client.tag.* in all instances, as rack.aware.assignment.tags lists them",
    ),
}  # fmt: skip


class _Statuses:
    """When each group or member first had each status, and which client requested the shutdown of a group."""

    def __init__(self) -> None:
        self.since: BoundedDict[tuple[str, str, int], int] = BoundedDict(_MAX_GROUPS * 4)
        self.shutdown_by: BoundedDict[str, str] = BoundedDict(_MAX_GROUPS)


@rule("G016", severity=Severity.WARNING, events=(ResponseReceived,), apis=("StreamsGroupHeartbeat",), since="0.1")
def streams_status(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports a status in which the coordinator of a streams group says why members have no tasks.

    ## Why it matters
    The heartbeat succeeds, so nothing looks like an error. But the group, or the member, processes nothing.

    ## Usual cause
    By status:

    - STALE_TOPOLOGY: instances with different versions of the application. Reported after 60 s, because it is normal
      while a new version is rolled out.
    - MISSING_SOURCE_TOPICS: a topic was not created, or its name is wrong.
    - INCORRECTLY_PARTITIONED_TOPICS: joined topics have different numbers of partitions.
    - MISSING_INTERNAL_TOPICS: the coordinator cannot create changelog or repartition topics. Reported after 15 s,
      because each new group has this status at first.
    - SHUTDOWN_APPLICATION: the handler of an uncaught exception in one instance returned SHUTDOWN_APPLICATION. The
      finding names the instance if its request was observed.
    - ASSIGNMENT_DELAYED: reported after 30 s.
    - MISSING_CLIENT_TAGS: instances without the tags for rack-aware standby tasks.

    ## Example
    ```story
    > StreamsGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 0}
    < {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 5000, "status": [{"status_code": 1,
       "status_detail": "Source topics orders are missing."}], "active_tasks": []}
    ```
    ```story
    > StreamsGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 0}
    < {"member_id": "m", "member_epoch": 1, "status": [{"status_code": 3, "status_detail": "t-changelog"}]}
    +10s
    > StreamsGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 1}
    < {"member_id": "m", "member_epoch": 1, "status": [{"status_code": 3, "status_detail": "t-changelog"}]}
    +10s
    > StreamsGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 1}
    < {"member_id": "m", "member_epoch": 1, "status": [{"status_code": 3, "status_detail": "t-changelog"}]}
    ```

    ## Look-alikes
    A new group whose internal topics are still being created:
    ```story
    > StreamsGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 0}
    < {"member_id": "m", "member_epoch": 1, "status": [{"status_code": 3, "status_detail": "t-changelog"}]}
    +10s
    > StreamsGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 1}
    < {"member_id": "m", "member_epoch": 1, "status": null}
    +10s
    > StreamsGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": 1}
    < {"member_id": "m", "member_epoch": 1, "status": [{"status_code": 3, "status_detail": "t-changelog"}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-1071%3A+Streams+Rebalance+Protocol
    """
    message, request = event.message, event.request
    if message is None or request is None or message.body.get("error_code"):
        return
    request_body, state = request.message.body, connection.run.state(_Statuses)
    group, member = (
        (request_body.get("group_id") or "")[:MAX_NAME_LENGTH],
        (request_body.get("member_id") or "")[:MAX_NAME_LENGTH],
    )
    if request_body.get("shutdown_application"):
        state.shutdown_by[group] = client_address_label(connection)
    statuses = {
        status.get("status_code"): (index, status) for index, status in enumerate(message.body.get("status") or ())
    }
    for code, status in _STATUSES.items():
        key = group, member if status.per_member else "", code
        if code not in statuses:
            state.since.pop(key, None)
            continue
        since = state.since.setdefault(key, event.at)
        if event.at - since < status.grace_period:
            continue
        index, row = statuses[code]
        detail = printable_text((row.get("status_detail") or "")[:_MAX_DETAIL])
        requester = state.shutdown_by.get(group) if code == _SHUTDOWN else None
        subject = f"member {member!r} of {client_address_label(connection)} in " if status.per_member else ""
        yield Problem(
            f"{subject}streams group {group!r} has status {status.name}"
            + (f" for {duration(event.at - since)}" if event.at > since else "")
            + f": {status.meaning}"
            + (f"; it was {requester}" if requester else "")
            + (f'; the broker says "{detail}"' if detail else ""),
            **locate(message, "status", index, "status_code"),
            hint=status.hint,
            blame=status.blame,
            cause=f"{group} {code}",
            once_per=key,
        )
