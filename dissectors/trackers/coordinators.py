"""Coordinators: the coordinators of groups and transactions in FindCoordinator, and the answers of coordinators."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.messages import summary
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState

#: FindCoordinator's key types.
KINDS = {0: "group", 1: "transactional id", 2: "share group"}

#: APIs that only a coordinator serves.
COORDINATOR_APIS = (
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "OffsetDelete",
    "DescribeGroups",
    "DeleteGroups",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat",
    "TxnOffsetCommit",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
)
_TRANSACTION_APIS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")

_MAX_KEYS = 10_000


class CoordinatorNode(NamedTuple):
    """A broker in a FindCoordinator response."""

    id: int
    address: str


class CoordinatorResult(NamedTuple):
    """The answer for one key: its error code and the path of the code.

    `node` is the node in a FindCoordinator response; None in responses from coordinators.
    """

    kind: str
    key: str
    code: int
    path: str
    node: CoordinatorNode | None = None

    @property
    def subject(self) -> str:
        """The kind and the key as text: ``group 'g'``."""
        return f"{self.kind} {self.key!r}"


@tracker(events=(ResponseReceived,), apis=("FindCoordinator",))
class Coordinators:
    """The coordinators that the clients of a run were directed to."""

    def __init__(self) -> None:
        self._nodes: BoundedDict[tuple[str, str], CoordinatorNode] = BoundedDict(_MAX_KEYS)

    def latest(self, result: CoordinatorResult) -> CoordinatorNode | None:
        """Return the last coordinator named for the key of a result."""
        return self._nodes.get((result.kind, result.key))

    def observe(self, event: ResponseReceived, _: ConnectionState) -> None:
        """Remember the coordinators in a response."""
        for result in coordinator_results(event):
            if result.node is not None and not result.code:
                self._nodes[result.kind, result.key] = result.node


def coordinator_results(event: ResponseReceived) -> list[CoordinatorResult]:
    """Return the results in a response from or about coordinators; FindCoordinator may have several."""
    is_lookup = event.message is not None and event.message.api == "FindCoordinator"
    return _lookup_results(event) if is_lookup else _coordinator_result(event)


def _lookup_results(event: ResponseReceived) -> list[CoordinatorResult]:
    request_body, message = event.request_body, event.message
    if request_body is None or message is None:
        return []
    kind = KINDS.get(request_body.get("key_type", 0), "key")
    if (rows := message.body.get("coordinators")) is not None:
        rows = [(row.get("key", ""), row, f"coordinators[{i}].") for i, row in enumerate(rows)]
    else:
        rows = [(request_body.get("key", ""), message.body, "")]
    return [
        CoordinatorResult(kind, key, broker.get("error_code", 0), f"{path}error_code",
                          CoordinatorNode(broker.get("node_id", -1), f"{broker.get('host')}:{broker.get('port')}"))
        for key, broker, path in rows
    ]  # fmt: skip


def _coordinator_result(event: ResponseReceived) -> list[CoordinatorResult]:
    request, message = event.request, event.message
    if request is None or message is None or not request.message.well_formed:
        return []
    if message.api in _TRANSACTION_APIS:
        kind, key = "transactional id", summary.transactional_id(request.message)
    else:
        kind, key = "group", summary.group_id(request.message)
    if key is None:
        return []
    error = next(iter(summary.errors(message)), None)
    return [CoordinatorResult(kind, key, error.code, error.path) if error else CoordinatorResult(kind, key, 0, "")]
