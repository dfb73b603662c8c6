"""AnsweredApis: the APIs and versions that servers have answered, by client."""

from __future__ import annotations

from typing import TypeAlias

from dissectors.bounded import BoundedDict
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

MAX_SERVED = 20_000

#: APIs that clients use before their actual work, or alongside it (telemetry).
DISCOVERY_APIS = frozenset(
    {
        ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY,
    }
)  # fmt: skip

#: Server, client id, API key and version.
AnsweredApi: TypeAlias = tuple[str, str | None, int, int]


class AnsweredApis:
    """The answered APIs of a run. Each connection adds an API version when it is first answered there."""

    def __init__(self) -> None:
        self._answered: BoundedDict[AnsweredApi, None] = BoundedDict(MAX_SERVED)
        self._last_work_at: BoundedDict[tuple[str, str | None], int] = BoundedDict(MAX_SERVED)

    def note(self, api: tuple[int, int], at: int, connection: ConnectionState) -> None:
        """Record that a request with this API key and version was answered."""
        self._answered[connection.server, connection.client_id, *api] = None
        if api[0] not in DISCOVERY_APIS:
            self._last_work_at[client_key(connection)] = at

    def has(self, api: AnsweredApi) -> bool:
        """Whether a request of this API version has been answered for this server and client id."""
        return api in self._answered

    def last_work_at(self, client: tuple[str, str | None]) -> int:
        """Return when a connection of the client last used an API outside `DISCOVERY_APIS`; 0 if none did."""
        return self._last_work_at.get(client, 0)
