"""V020: consumers that use the classic protocol although client and broker have the newer one (KIP-848)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dissectors.bounded import MAX_NAME_LENGTH, BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import Versions

GENERATIONS = Limit("generations", 5, "generations", "the group went through so many generations", 2)
WITHIN = Limit("within", 600, "s", "within this time")

_MAX_GROUPS = 1_000

#: The first version of each client, by its name in ApiVersions, whose newer protocol is ready for production.
_FIRST_VERSIONS: Final = {"apache-kafka-java": (4, 0), "librdkafka": (2, 12), "confluent-kafka-python": (2, 12)}
_SOFTWARE: Final = re.compile(r"(\S+) (\d{1,4})\.(\d{1,4})")


class _FirstGenerations:
    """The generation at which counting began for each group, and when (ns)."""

    def __init__(self) -> None:
        self.by_group: BoundedDict[str, tuple[int, int]] = BoundedDict(_MAX_GROUPS)


@rule(
    "V020",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("JoinGroup",),
    needs=(Versions,),
    limits=(GENERATIONS, WITHIN),
    since="0.1",
    blame="client",
)
def classic_member(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports groups that rebalance with the classic protocol although client and broker have the newer one.

    ## Why it matters
    In the classic protocol, each rebalance waits for every member: a slow member stops them all, and with eager
    assignors nobody reads in the meantime. In the newer protocol (KIP-848), the broker assigns partitions, and only the
    members concerned notice.

    ## Usual cause
    group.protocol is classic by default. Java's client from 4.0 and librdkafka from 2.12 on have the newer one; the
    broker offers it if it lists ConsumerGroupHeartbeat.

    Reported only if the group rebalances: a group that is at rest gains nothing. Nothing is wrong, so the severity is
    info.

    ## Example
    ```story
    rule V020:generations=2
    > ApiVersions v3 {"client_software_name": "apache-kafka-java", "client_software_version": "4.1.0"}
    < {"api_keys": [{"api_key": 11, "max_version": 9}, {"api_key": 18, "max_version": 4}, {"api_key": 68}]}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "member_id": "m", "protocol_type": "consumer"}
    < {"generation_id": 1, "member_id": "m"}
    +5s
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "member_id": "m", "protocol_type": "consumer"}
    < {"generation_id": 3, "member_id": "m"}
    ```

    ## Look-alikes
    A broker without the newer protocol, and a client without it:
    ```story
    rule V020:generations=2
    > ApiVersions v3 {"client_software_name": "apache-kafka-java", "client_software_version": "4.1.0"}
    < {"api_keys": [{"api_key": 11, "max_version": 9}, {"api_key": 18, "max_version": 4}]}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "member_id": "m", "protocol_type": "consumer"}
    < {"generation_id": 1, "member_id": "m"}
    +5s
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "member_id": "m", "protocol_type": "consumer"}
    < {"generation_id": 3, "member_id": "m"}
    ```
    ```story
    rule V020:generations=2
    > ApiVersions v3 {"client_software_name": "apache-kafka-java", "client_software_version": "3.9.1"}
    < {"api_keys": [{"api_key": 11, "max_version": 9}, {"api_key": 18, "max_version": 4}, {"api_key": 68}]}
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "member_id": "m", "protocol_type": "consumer"}
    < {"generation_id": 1, "member_id": "m"}
    +5s
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "member_id": "m", "protocol_type": "consumer"}
    < {"generation_id": 3, "member_id": "m"}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol
    """
    message, request_body = event.message, event.request_body
    if (
        message is None
        or request_body is None
        or request_body.get("protocol_type") != "consumer"
        or message.body.get("error_code")
    ):
        return
    if not _has_newer_protocol(connection):
        return
    group, generation = (request_body.get("group_id") or "")[:MAX_NAME_LENGTH], message.body.get("generation_id", -1)
    first_generations, run = connection.run.state(_FirstGenerations).by_group, connection.run
    first, since = first_generations.get(group, (generation, event.at))
    if generation < first or event.at - since > run.limit(WITHIN) * SECOND:
        first, since = generation, event.at
    first_generations[group] = first, since
    if generation - first >= run.limit(GENERATIONS):
        yield Problem(
            f"group {group!r} went through {generation - first} generations of the classic protocol within "
            f"{duration(event.at - since)}, and all its members had to join again each time; "
            f"{client_label(connection)} and the broker have the newer protocol (KIP-848)",
            hint="set group.protocol=consumer in all members of the group; they may be restarted one after the other",
            cause=group,
            once_per=group,
        )


def _has_newer_protocol(connection: ConnectionState) -> bool:
    """Whether both broker and client have the newer protocol."""
    if (software := _SOFTWARE.match(connection.client_software or "")) is None:
        return False
    name, major, minor = software.groups()
    if name not in _FIRST_VERSIONS or (int(major), int(minor)) < _FIRST_VERSIONS[name]:
        return False
    ranges = connection.state(Versions).ranges(connection)
    return ranges is not None and ApiKey.CONSUMER_GROUP_HEARTBEAT in ranges
