"""G014: a group has no coordinator, or its coordinator has moved."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.findings import Problem, Severity
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import StallKind
from dissectors.rules import rule
from dissectors.rules.helpers.stall_problems import stall_problems
from dissectors.trackers.state import ConnectionState


@rule("G014", severity=Severity.WARNING, events=(GroupStalled,), since="0.1", blame="broker")
def no_coordinator(event: GroupStalled, _connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a group has no coordinator, or that its coordinator has moved.

    ## Why it matters
    Without a coordinator, members can neither join nor commit. Clients wait without an error message.

    ## Usual cause
    A broker that is restarting; `__consumer_offsets` without a leader; an address that leads to the wrong broker.

    ## Example
    ```story
    > FindCoordinator v2 {"key": "orders"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +1s
    > FindCoordinator v2 {"key": "orders"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +1s
    > FindCoordinator v2 {"key": "orders"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +1s
    > FindCoordinator v2 {"key": "orders"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +1s
    > FindCoordinator v2 {"key": "orders"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +1s
    > FindCoordinator v2 {"key": "orders"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +1s
    > FindCoordinator v2 {"key": "orders"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +1s
    ```

    ## Look-alikes
    ```story
    > FindCoordinator v2 {"key": "orders"}
    < {"error_code": 15, "node_id": -1, "port": -1}
    +1s
    > FindCoordinator v2 {"key": "orders"}
    < {"node_id": 1, "host": "10.0.0.1", "port": 9092}
    +1s
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    """
    return stall_problems(event, StallKind.COORDINATOR)
