"""S022: the broker that FindCoordinator names answers NOT_COORDINATOR, repeatedly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.coordinators import COORDINATOR_APIS, Coordinators, coordinator_results
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.wire.paths import parts

_NOT_AVAILABLE = Error.COORDINATOR_NOT_AVAILABLE
_NOT_COORDINATOR = Error.NOT_COORDINATOR
_THRESHOLD = 5
#: A broker that has just started names itself before it is ready, and a client may ask ten times a second.
_MIN_LOOP_NS = 2_000_000_000
_MAX_LOOKUPS = 10_000


@dataclass(slots=True)
class _Lookup:
    """A client's lookups of one coordinator.

    `looked_up`: whether FindCoordinator has been answered since the last denial. `denials`: consecutive denials, the
    first one at `since` (ns).
    """

    looked_up: bool = False
    denials: int = 0
    since: int = 0


class _Lookups:
    """Lookups per client (host and id) and coordinator key: lookup and denial happen on different connections."""

    def __init__(self) -> None:
        self.lookups: BoundedDict[tuple[str, str | None, str, str], _Lookup] = BoundedDict(_MAX_LOOKUPS)


@rule(
    "S022",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("FindCoordinator",),
    also=(Trigger((ResponseReceived,), COORDINATOR_APIS, only=FrameFlags.REFUSED),),
    needs=(Coordinators,),
    since="0.1",
    blame="broker",
)
def coordinator_loop(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the broker named by FindCoordinator accepts that it is the coordinator.

    ## Why it matters
    The client looks up the coordinator, the broker that it finds answers NOT_COORDINATOR, and this repeats forever: no
    member joins, no offset is committed, no transaction ends.

    ## Usual cause
    Brokers that disagree about the leader of a partition of `__consumer_offsets` or `__transaction_state`, a gateway
    that always names itself, or one address for several brokers. While a coordinator starts or moves, this is
    normal for a moment: a loop of less than 2 seconds is not reported.

    ## Example
    ```story
    open 1 client=10.0.0.7:50001
    open 2 client=10.0.0.7:50002
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    +500ms
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    +500ms
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    +500ms
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    +500ms
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    ```

    ## Look-alikes
    A coordinator that moves to another broker:
    ```story
    open 1 client=10.0.0.7:50001
    open 2 client=10.0.0.7:50002
    open 3 client=10.0.0.7:50003
    > FindCoordinator v4 {"coordinator_keys": ["g"]}
    < {"coordinators": [{"key": "g", "node_id": 1, "host": "kafka-1", "port": 9092}]}
    2> Heartbeat v4 {"group_id": "g", "member_id": "m"}
    2< {"error_code": 16}
    > FindCoordinator v4 {"coordinator_keys": ["g"]}
    < {"coordinators": [{"key": "g", "node_id": 1, "host": "kafka-1", "port": 9092}]}
    2> Heartbeat v4 {"group_id": "g", "member_id": "m"}
    2< {"error_code": 16}
    > FindCoordinator v4 {"coordinator_keys": ["g"]}
    < {"coordinators": [{"key": "g", "node_id": 2, "host": "kafka-2", "port": 9092}]}
    3> Heartbeat v4 {"group_id": "g", "member_id": "m"}
    3< {}
    ```

    A broker that has just started, asked every tenth of a second:
    ```story
    open 1 client=10.0.0.7:50001
    open 2 client=10.0.0.7:50002
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    +100ms
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    +100ms
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    +100ms
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    +100ms
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    +100ms
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {}
    ```

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/3396
    https://github.com/confluentinc/librdkafka/issues/2791
    https://github.com/confluentinc/confluent-kafka-go/issues/638
    """
    coordinators = connection.run.state(Coordinators)
    for result in coordinator_results(event):
        lookups = connection.run.state(_Lookups).lookups
        key = host_of(connection.client), connection.client_id, result.kind, result.key
        if result.node is not None:
            if not result.code:
                lookups.touch(key, _Lookup).looked_up = True
                connection.run.subscribe("S022")
        elif (lookup := lookups.get(key)) is None or result.code == _NOT_AVAILABLE:
            continue
        elif result.code != _NOT_COORDINATOR:
            del lookups[key]
            if not lookups:
                connection.run.unsubscribe("S022")
        elif lookup.looked_up:
            lookup.looked_up = False
            lookup.denials += 1
            if lookup.denials == 1:
                lookup.since = event.at
            is_loop = lookup.denials >= _THRESHOLD and event.at - lookup.since >= _MIN_LOOP_NS
            if is_loop and event.message is not None and (node := coordinators.latest(result)):
                yield Problem(
                    f"FindCoordinator names node {node.id} ({node.address}) as coordinator of {result.subject}, but "
                    f"{connection.dialled} answers {event.message.api} with NOT_COORDINATOR: "
                    f"{lookup.denials} times in a row",
                    **locate(event.message, *parts(result.path)),
                    hint="check which broker leads the partition of __consumer_offsets (or __transaction_state), and "
                    "whether that node's address leads to it",
                    cause=result.subject,
                )
