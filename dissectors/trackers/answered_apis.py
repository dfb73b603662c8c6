"""What the servers of a run have answered, and to whom."""

from __future__ import annotations

from typing import TypeAlias

from dissectors.bounded import BoundedDict
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_of

MAX_SERVED = 20_000

#: What a client asks to get its bearings.
BEARINGS = frozenset(
    {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE}
)

#: Server, client id, API key and version.
Kind: TypeAlias = tuple[str, str | None, int, int]


class AnsweredApis:
    """Each connection notes here what is answered on it for the first time."""

    def __init__(self) -> None:
        self._kinds: BoundedDict[Kind, None] = BoundedDict(MAX_SERVED)
        self._at_work: BoundedDict[tuple[str, str | None], int] = BoundedDict(MAX_SERVED)

    def note(self, api: tuple[int, int], at: int, connection: ConnectionState) -> None:
        """An API key and version was answered."""
        self._kinds[connection.server, connection.client_id, *api] = None
        if api[0] not in BEARINGS:
            self._at_work[client_of(connection)] = at

    def has(self, kind: Kind) -> bool:
        """Whether that was answered before."""
        return kind in self._kinds

    def at_work(self, client: tuple[str, str | None]) -> int:
        """When a connection of that client last began with more than bearings; 0 if none did."""
        return self._at_work.get(client, 0)
