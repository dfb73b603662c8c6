"""Losses: which clients sent or got frames that were not read."""

from __future__ import annotations

import sys
from collections.abc import Hashable

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import BytesSkipped, FramingLost, RequestReceived, ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.trackers.versions import client_key

_MAX_CLIENTS = 10_000


@tracker(
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    also=(Trigger((BytesSkipped, FramingLost)),),
)
class Losses:
    """When frames were last missed: the inspector was behind, the capture has gaps, or requests do not decode.

    A frame that a rule waits for may have been among them. `count` grows with each loss of bytes on any connection.
    """

    def __init__(self) -> None:
        self.count = 0
        self._everywhere_at = -1
        self._at: BoundedDict[Hashable, int] = BoundedDict(_MAX_CLIENTS)

    def observe(
        self, event: RequestReceived | ResponseReceived | BytesSkipped | FramingLost, connection: ConnectionState
    ) -> None:
        """Record lost bytes, and requests that do not decode, because rules do not get them."""
        if isinstance(event, RequestReceived | ResponseReceived) and not event.damaged:
            if isinstance(event, RequestReceived) and not event.message.well_formed:
                self._at[client_key(connection)] = event.at
            return
        self.count += 1
        self._at[host_of(connection.client)] = event.at

    def lose_connections(self, at: int) -> None:
        """Record that whole connections of unknown clients were not observed."""
        self.count += 1
        self._everywhere_at = max(at, self._everywhere_at)

    def observe_sample(self) -> None:
        """Record that only some connections are observed, so that frames of any client may always have been missed."""
        self._everywhere_at = sys.maxsize

    def has_losses_since(self, at: int, connection: ConnectionState) -> bool:
        """Whether frames of a connection's client may have been missed at `at` (ns) or later."""
        if self._everywhere_at >= at:
            return True
        keys = host_of(connection.client), client_key(connection)
        return any(self._at.get(key, -1) >= at for key in keys)


class LossCheck:
    """Detects whether bytes were lost since the last check, so that state built from them is outdated."""

    def __init__(self) -> None:
        self._count = 0

    def is_outdated(self, connection: ConnectionState) -> bool:
        """Whether bytes of any connection were lost since the last call."""
        previous, self._count = self._count, connection.run.state(Losses).count
        return self._count != previous
