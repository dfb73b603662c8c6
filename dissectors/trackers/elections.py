"""Elections: whether brokers are electing leaders or coordinators, which also causes other refusals for a while."""

from __future__ import annotations

from typing import Final

from dissectors.connections.events import ResponseReceived
from dissectors.messages import summary
from dissectors.schemas.codes import Error
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: What brokers answer while leaders and coordinators move.
SIGNS: Final = frozenset((
    Error.LEADER_NOT_AVAILABLE, Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH, Error.OFFSET_NOT_AVAILABLE,
    Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR,
))  # fmt: skip
#: What an election causes: replicas out of sync, transactions without their markers.
EFFECTS: Final = frozenset((
    Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Error.REQUEST_TIMED_OUT,
    Error.CONCURRENT_TRANSACTIONS, Error.UNSTABLE_OFFSET_COMMIT,
))  # fmt: skip
#: After a sign, the cluster needs this long (ns) for replicas to be in sync and transactions to have their markers.
SETTLING_TIME: Final = 15_000_000_000


@tracker(events=(ResponseReceived,), only=FrameFlags.REFUSED)
class Elections:
    """When brokers of a run last sent each sign of an election."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def observe(self, event: ResponseReceived, _: ConnectionState) -> None:
        """Remember the signs in a response."""
        if event.message is not None:
            for error in summary.errors(event.message):
                if error.code in SIGNS:
                    self._last[error.code] = event.at

    def may_cause(self, code: int, at: int) -> bool:
        """Whether an election may have caused an error that began at `at` (ns), judging by other signs of one."""
        if code not in SIGNS and code not in EFFECTS:
            return False
        return any(seen_at > at - SETTLING_TIME for sign, seen_at in self._last.items() if sign != code)
