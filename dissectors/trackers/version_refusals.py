"""VersionRefusals: connections whose ApiVersions was refused with UNSUPPORTED_VERSION, and what they did next."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.connections.events import ResponseReceived
from dissectors.findings import ConcernedRequest
from dissectors.schemas.codes import ApiKey, Error
from dissectors.trackers import tracker
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_API_VERSIONS = ApiKey.API_VERSIONS


class VersionRefusal(NamedTuple):
    """A refused version of ApiVersions, and the versions that the response offers instead; (0, 0) if it offers none."""

    version: int
    served: tuple[int, int]
    request: ConcernedRequest


@tracker(
    events=(ResponseReceived,), apis=("ApiVersions",), only=FrameFlags.REFUSED, needs=(InFlight,), per="connection"
)
class VersionRefusals:
    """The refusal of a connection's ApiVersions, if there was one.

    Source: KIP-511.
    """

    def __init__(self) -> None:
        self._refusal: VersionRefusal | None = None

    def observe(self, event: ResponseReceived, _: ConnectionState) -> None:
        """Remember a refusal."""
        message = event.message
        if message is None or event.request is None or message.body.get("error_code") != Error.UNSUPPORTED_VERSION:
            return
        ranges = message.body.get("api_keys") or ()
        served_range = next(
            ((row["min_version"], row["max_version"]) for row in ranges if row["api_key"] == _API_VERSIONS), (0, 0)
        )
        self._refusal = VersionRefusal(event.request.message.version, served_range, ConcernedRequest.of(event.request))

    def ignored_refusal(self, connection: ConnectionState) -> VersionRefusal | None:
        """Return the refusal, if the client has used nothing else on the connection, which is now ending."""
        refusal = self._refusal
        if refusal is None or connection.state(InFlight).served != {(_API_VERSIONS, refusal.version)}:
            return None
        return refusal
