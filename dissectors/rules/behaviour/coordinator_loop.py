"""S022: a coordinator that denies being one."""

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
from dissectors.trackers.coordinators import COORDINATED, Coordinators, coordinator_answers
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.wire.paths import parts

_NOT_AVAILABLE = Error.COORDINATOR_NOT_AVAILABLE
_NOT_COORDINATOR = Error.NOT_COORDINATOR
_TIMES = 5
_MOST_SEARCHES = 10_000


@dataclass(slots=True)
class _Search:
    """A client's search for one coordinator: `asked` since it was denied last, and how often it was, in a row."""

    asked: bool = False
    denied: int = 0


class _Searches:
    """By the client's host and id, and what is coordinated: the question and the denial have different connections."""

    def __init__(self) -> None:
        self.searches: BoundedDict[tuple[str, str | None, str, str], _Search] = BoundedDict(_MOST_SEARCHES)


@rule(
    "S022",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("FindCoordinator",),
    also=(Trigger((ResponseReceived,), COORDINATED, only=FrameFlags.REFUSED),),
    needs=(Coordinators,),
    since="0.1",
    blame="broker",
)
def coordinator_loop(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the broker named by FindCoordinator accepts that it is the coordinator.

    ## Why it matters
    The client asks for the coordinator, is sent to a broker that answers NOT_COORDINATOR, asks again, and so on
    forever: no member joins, no offset is committed, no transaction ends.

    ## Usual cause
    Brokers that disagree about the leader of a partition of `__consumer_offsets` or `__transaction_state`, a gateway
    that always names itself, or one address for several brokers. While a coordinator moves, this is normal for a
    moment.

    ## Example
    ```story
    open 1 client=10.0.0.7:50001
    open 2 client=10.0.0.7:50002
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    > FindCoordinator v2 {"key": "g"}
    < {"node_id": 1, "host": "kafka-1", "port": 9092}
    2> JoinGroup v5 {"group_id": "g"}
    2< {"error_code": 16}
    ```

    ## Looks alike
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

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/3396
    https://github.com/confluentinc/librdkafka/issues/2791
    https://github.com/confluentinc/confluent-kafka-go/issues/638
    """
    coordinators = connection.run.state(Coordinators)
    for answer in coordinator_answers(event):
        searches = connection.run.state(_Searches).searches
        key = host_of(connection.client), connection.client_id, answer.kind, answer.key
        if answer.node is not None:
            if not answer.code:
                searches.touch(key, _Search).asked = True
                connection.run.subscribe("S022")
        elif (search := searches.get(key)) is None or answer.code == _NOT_AVAILABLE:
            continue
        elif answer.code != _NOT_COORDINATOR:
            del searches[key]
            if not searches:
                connection.run.unsubscribe("S022")
        elif search.asked:
            search.asked = False
            search.denied += 1
            if search.denied >= _TIMES and event.message is not None and (node := coordinators.latest(answer)):
                yield Problem(
                    f"FindCoordinator names node {node.id} ({node.address}) as coordinator of {answer.subject}, but "
                    f"{connection.dialled} answers {event.message.api} with NOT_COORDINATOR: "
                    f"{search.denied} times in a row",
                    **locate(event.message, *parts(answer.path)),
                    hint="check which broker leads the partition of __consumer_offsets (or __transaction_state), and "
                    "whether that node's address leads to it",
                    cause=answer.subject,
                )
