"""S023: a coordinator that is unavailable for several seconds."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.coordinators import COORDINATOR_APIS, coordinator_results
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.wire.paths import parts

_NOT_AVAILABLE = Error.COORDINATOR_NOT_AVAILABLE
#: The finding is a warning after this time (ns) and this many responses, and an error after a longer time.
_WARNING_AFTER = 6 * SECOND
_MIN_RESPONSES = 3
_ERROR_AFTER = 30 * SECOND
_RESET_AFTER = 60 * SECOND
_MAX_KEYS = 10_000


class _UnavailableCoordinators:
    """Coordinators that are not available: the times of the first and the latest error, and the number of errors."""

    def __init__(self) -> None:
        self.by_key: BoundedDict[tuple[str, str], tuple[int, int, int]] = BoundedDict(_MAX_KEYS)


@rule(
    "S023",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("FindCoordinator", *COORDINATOR_APIS),
    only=FrameFlags.REFUSED,
    since="0.1",
    blame="broker",
)
def coordinator_unavailable(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that COORDINATOR_NOT_AVAILABLE ends within seconds.

    ## Why it matters
    Without a coordinator, a group has no members or offsets, and a transactional producer cannot write. Clients wait
    silently. Reported as a warning after 6 seconds, as an error after 30.

    ## Usual cause
    `__consumer_offsets` or `__transaction_state` cannot be created or has no leader. The most common reason is a
    single broker with a replication factor of 3, the default. In the first seconds of a new cluster, this is normal.

    ## Example
    ```story
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +20s
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +20s
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    ```

    ## Look-alikes
    A new cluster, in which the first request creates the topic:
    ```story
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +2s
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +2s
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    +40s
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#brokerconfigs_offsets.topic.replication.factor
    https://github.com/confluentinc/confluent-kafka-go/issues/646
    https://github.com/segmentio/kafka-go/issues/955
    https://github.com/AutoMQ/automq/issues/691
    """
    for result in coordinator_results(event):
        unavailable = connection.run.state(_UnavailableCoordinators).by_key
        key = result.kind, result.key
        if result.code != _NOT_AVAILABLE:
            if unavailable.pop(key, None) and not unavailable:
                connection.run.unsubscribe("S023")
            continue
        connection.run.subscribe("S023")
        since, last, responses = unavailable.get(key, (event.at, event.at, 0))
        if event.at - last > _RESET_AFTER:
            since, responses = event.at, 0
        unavailable[key] = since, event.at, responses + 1
        is_error = event.at - since >= _ERROR_AFTER
        is_warning = event.at - since >= _WARNING_AFTER and responses + 1 >= _MIN_RESPONSES
        if (is_error or is_warning) and event.message is not None:
            yield Problem(
                f"{result.subject} has had no coordinator for {(event.at - since) // SECOND} s: every answer "
                f"is COORDINATOR_NOT_AVAILABLE, the latest to {event.message.api}",
                **locate(event.message, *parts(result.path)),
                hint="check that __consumer_offsets (or __transaction_state) exists and that all its partitions have a "
                "leader; a single broker needs offsets.topic.replication.factor=1",
                severity=None if is_error else Severity.WARNING,
                cause=f"{result.subject} {is_error}",
            )
