"""S065: a client that waits for a controller that the cluster does not name."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.repetitions import Repetitions
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_text

#: Reported after this many responses over this time (ns): a cluster with ZooKeeper elects a controller sooner.
THRESHOLD = 5
MIN_DURATION = 3_000_000_000


@rule(
    "S065",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Metadata", "DescribeCluster"),
    needs=(Repetitions,),
    since="0.1",
    blame="broker",
)
def no_controller(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the cluster names a controller to a client that waits for one.

    ## Why it matters
    Clients send CreateTopics and other administrative requests to the controller. Without one, they request Metadata
    until their timeout, and report only that.

    ## Usual cause
    A server without controllers that leaves controller_id at its default, -1: it must name one of its brokers, itself
    if need be. Kafka with KRaft names any broker. Or a cluster that has no controller because its quorum has no
    majority.

    It is reported after 5 responses over at least 3 s on a connection on which the client requests nothing else.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "controller_id": -1}
    +800ms
    > Metadata v8 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "controller_id": -1}
    +800ms
    > Metadata v8 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "controller_id": -1}
    +800ms
    > Metadata v8 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "controller_id": -1}
    +800ms
    > Metadata v8 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "controller_id": -1}
    ```

    ## Look-alikes
    A client that does not need a controller and goes on to other requests:
    ```story
    > Metadata v8 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "controller_id": -1}
    +800ms
    > Metadata v8 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "controller_id": -1}
    +800ms
    > Metadata v8 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "controller_id": -1}
    +800ms
    > ListGroups v2 {}
    < {}
    +800ms
    > Metadata v8 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "controller_id": -1}
    +800ms
    > Metadata v8 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "controller_id": -1}
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_Metadata
    https://github.com/seaweedfs/seaweedfs/pull/7329
    """
    message, repetition = event.message, connection.state(Repetitions).latest
    if message is None or repetition.times < THRESHOLD or message.diagnosis is not None:
        return
    elapsed = event.at - repetition.since
    if elapsed < MIN_DURATION or message.body.get("controller_id", 0) != -1:
        return
    yield Problem(
        f"{client_text(connection)} waits for a controller: {connection.server} answered {repetition.times} "
        f"{message.api} requests within {duration(elapsed)} with controller_id -1",
        **locate(message, "controller_id"),
        hint="fix the server: controller_id must be one of the brokers in the response, itself if need be; on a real "
        "cluster, check that its controllers run and have a majority",
        expected="the node id of a broker",
        got="-1",
    )
