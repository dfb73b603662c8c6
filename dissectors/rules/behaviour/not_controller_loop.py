"""S040: a client that keeps sending requests to a broker that answers NOT_CONTROLLER."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.addresses import host_of
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages import summary
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.recurrence import Recurrence
from dissectors.trackers.state import ConnectionState

_NOT_CONTROLLER = Error.NOT_CONTROLLER
_THRESHOLD = 3
_CONTROLLER_LOOKUPS = ("Metadata", "DescribeCluster")


class _Refusals(Recurrence):
    """Refusals per client (host and client id)."""


@rule(
    "S040",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=(
        *_CONTROLLER_LOOKUPS,
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "ElectLeaders",
        "AlterPartitionReassignments",
        "ListPartitionReassignments",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "AlterClientQuotas",
        "AlterUserScramCredentials",
        "CreateAcls",
        "DeleteAcls",
        "UpdateFeatures",
        "UnregisterBroker",
    ),
    since="0.1",
    blame="client",
)
def not_controller_loop(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client looks up the controller after NOT_CONTROLLER before it tries again.

    ## Why it matters
    The controller has moved, and the broker will not become the controller again: without a Metadata request in
    between, the answer stays the same. Reported at the third refusal in a row.

    ## Usual cause
    A client that caches the controller from startup, or a proxy or load balancer that sends each attempt to a
    different broker.

    ## Example
    ```story
    > CreateTopics v5 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 41}]}
    > CreateTopics v5 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 41}]}
    > CreateTopics v5 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 41}]}
    ```

    ## Look-alikes
    ```story
    > CreateTopics v5 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 41}]}
    > Metadata v9 {"topics": []}
    < {"controller_id": 2}
    > CreateTopics v5 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 41}]}
    > Metadata v9 {"topics": []}
    < {"controller_id": 3}
    > CreateTopics v5 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 41}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    """
    key = (host_of(connection.client), connection.client_id)
    message = event.message
    if isinstance(event, RequestReceived):
        if event.message.api in _CONTROLLER_LOOKUPS:
            connection.run.state(_Refusals).forget(key)
        return
    if message is None or message.api in _CONTROLLER_LOOKUPS:
        return
    if not any(error.code == _NOT_CONTROLLER for error in summary.errors(message)):
        return
    if (times := connection.run.state(_Refusals).count(key, event.at)) >= _THRESHOLD:
        yield Problem(
            f"client {connection.client_id!r} got NOT_CONTROLLER {times} times without looking up the controller; "
            f"the last time for {message.api} from {connection.server}",
            hint="the client must request Metadata and use controller_id; every broker needs its own address",
            expected="Metadata",
            got=message.api,
        )
