"""CommitHabits: how many records lie between the offset commits of a member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.limits import Limit
from dissectors.trackers import tracker
from dissectors.trackers.commits import Commits
from dissectors.trackers.fetches import FetchesByClient
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

_MAX_MEMBERS = 10_000

COMMITS: Final = Limit("commits", 100, "commits", "of so many commits in a row of a member", 2)


class CommitWindow(NamedTuple):
    """Consecutive commits of a member.

    `offset_moves` is how many of the commits moved offsets, `records` is how many records they moved them by in total,
    and `ns` is the time from the first to the last commit. `fetches` is the number of Fetch responses with records that
    the member's client received in that time.
    """

    group: str
    commits: int
    offset_moves: int
    records: int
    ns: int
    fetches: int


@dataclass(slots=True)
class _Count:
    since: int
    fetches: int
    commits: int = 0
    offset_moves: int = 0
    records: int = 0


@tracker(events=(ResponseReceived,), apis=("OffsetCommit",), needs=(Commits, FetchesByClient))
class CommitHabits:
    """Counts the commits of each member. `window` is None unless the latest OffsetCommit response completed it."""

    def __init__(self) -> None:
        self.window: CommitWindow | None = None
        self._counts: BoundedDict[tuple[str, str, tuple[str, str | None]], _Count] = BoundedDict(_MAX_MEMBERS)

    def observe(self, event: ResponseReceived, connection: ConnectionState) -> None:
        """Count an accepted commit."""
        self.window = None
        request_body, advance = event.request_body, connection.run.state(Commits).advance
        if request_body is None or advance is None:
            return
        client = client_key(connection)
        group = request_body.get("group_id") or ""
        key = group, request_body.get("member_id") or "", client
        fetches = connection.run.state(FetchesByClient).for_client(client).with_records
        count = self._counts.touch(key, lambda: _Count(event.at, fetches))
        count.commits += 1
        if advance:
            count.offset_moves += 1
            count.records += advance
        if count.commits >= connection.run.limit(COMMITS):
            self.window = CommitWindow(
                group, count.commits, count.offset_moves, count.records, event.at - count.since, fetches - count.fetches
            )
            del self._counts[key]
