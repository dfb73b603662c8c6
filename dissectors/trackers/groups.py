"""MisledGroups: groups whose members got undecodable responses, so that their later behaviour is not evaluated."""

from __future__ import annotations

from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.trackers import tracker

MAX_GROUPS = 10_000

#: How long (ns) a group counts as misled after such a response.
MISLED_FOR = 60 * 1_000_000_000


@tracker(events=(ResponseReceived,), apis=("JoinGroup", "SyncGroup"), broken=True)
class MisledGroups:
    """Groups that got JoinGroup or SyncGroup responses that deviate from Kafka's layout."""

    def __init__(self) -> None:
        self._since: BoundedDict[str, int] = BoundedDict(MAX_GROUPS)

    def observe(self, event: ResponseReceived, _: Any) -> None:
        """Remember the group of a response that deviates from its layout."""
        message = event.message
        if message is not None and (message.diagnosis is not None or not message.well_formed):
            self._since[(event.request_body or {}).get("group_id", "")] = event.at

    def contains(self, group: str, at: int) -> bool:
        """Whether a member of the group recently got a response that deviates from its layout."""
        return bool(self._since) and at - self._since.get(group, 0) < MISLED_FOR
