"""Coordinators: who is named as coordinator of a group or transaction, and what coordinators answer."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.messages import summary
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState

#: FindCoordinator's key types.
KINDS = {0: "group", 1: "transactional id", 2: "share group"}

#: APIs that a coordinator serves.
COORDINATED = (
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
_BY_TRANSACTION = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")

_MOST_KEYS = 10_000


class CoordinatorNode(NamedTuple):
    """A broker as FindCoordinator names it."""

    id: int
    address: str


class CoordinatorAnswer(NamedTuple):
    """What a response says of one key: its error code and the path of that.

    `named` is the node that a FindCoordinator names, None in what coordinators themselves answer.
    """

    kind: str
    key: str
    code: int
    path: str
    named: CoordinatorNode | None = None

    @property
    def subject(self) -> str:
        """As sentences say it: ``group 'g'``."""
        return f"{self.kind} {self.key!r}"


@tracker(events=(ResponseReceived,), apis=("FindCoordinator",))
class Coordinators:
    """The coordinators that the run's clients were told."""

    def __init__(self) -> None:
        self._named: BoundedDict[tuple[str, str], CoordinatorNode] = BoundedDict(_MOST_KEYS)

    def named(self, verdict: CoordinatorAnswer) -> CoordinatorNode | None:
        """Who was named last as coordinator of what a verdict is about."""
        return self._named.get((verdict.kind, verdict.key))

    def observe(self, event: ResponseReceived, _: ConnectionState) -> None:
        """Take the coordinators that a response names."""
        for each in verdicts(event):
            if each.named is not None and not each.code:
                self._named[each.kind, each.key] = each.named


def verdicts(event: ResponseReceived) -> list[CoordinatorAnswer]:
    """What a response says of a coordinator, a FindCoordinator perhaps of several."""
    found = event.message is not None and event.message.api == "FindCoordinator"
    return _found(event) if found else _answered(event)


def _found(event: ResponseReceived) -> list[CoordinatorAnswer]:
    asked, message = event.request_body, event.message
    if asked is None or message is None:
        return []
    kind = KINDS.get(asked.get("key_type", 0), "key")
    if (several := message.body.get("coordinators")) is not None:
        rows = [(each.get("key", ""), each, f"coordinators[{i}].") for i, each in enumerate(several)]
    else:
        rows = [(asked.get("key", ""), message.body, "")]
    return [
        CoordinatorAnswer(kind, key, each.get("error_code", 0), f"{path}error_code",
                CoordinatorNode(each.get("node_id", -1), f"{each.get('host')}:{each.get('port')}"))
        for key, each, path in rows
    ]  # fmt: skip


def _answered(event: ResponseReceived) -> list[CoordinatorAnswer]:
    request, message = event.request, event.message
    if request is None or message is None or not request.message.well_formed:
        return []
    if message.api in _BY_TRANSACTION:
        kind, key = "transactional id", summary.transactional_id(request.message)
    else:
        kind, key = "group", summary.group_id(request.message)
    if key is None:
        return []
    error = next(iter(summary.errors(message)), None)
    return [CoordinatorAnswer(kind, key, error.code, error.path) if error else CoordinatorAnswer(kind, key, 0, "")]
