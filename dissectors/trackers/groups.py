"""Groups: those whose members are told what they cannot read, so that what these do then says nothing more."""

from __future__ import annotations

from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.trackers import tracker

MAX_GROUPS = 10_000

#: After a response that departs from its layout, so long (ns).
MISLED = 60 * 1_000_000_000


@tracker(events=(ResponseReceived,), apis=("JoinGroup", "SyncGroup"), broken=True)
class MisledGroups:
    """Groups with JoinGroup or SyncGroup responses that depart from their layout."""

    def __init__(self) -> None:
        self._since: BoundedDict[str, int] = BoundedDict(MAX_GROUPS)

    def observe(self, event: ResponseReceived, _: Any) -> None:
        """Take in a response that departs."""
        message = event.message
        if message is not None and (message.diagnosis is not None or not message.well_formed):
            self._since[(event.request_body or {}).get("group_id", "")] = event.at

    def holds(self, group: str, at: int) -> bool:
        """Whether a group's members were lately told what departs."""
        return bool(self._since) and at - self._since.get(group, 0) < MISLED
