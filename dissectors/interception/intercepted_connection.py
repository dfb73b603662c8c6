"""InterceptedConnection: applies interceptors to both directions of a connection, without I/O."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Final

from dissectors.connections.events import Direction
from dissectors.interception.intercepted_stream import Delivery, Limits, RequestStream, ResponseStream, TooLarge
from dissectors.interception.interceptor import Interceptor
from dissectors.interception.pending_requests import Handling, PendingRequests
from dissectors.schemas.codes import ApiKey

#: Larger frames are forwarded without being shown to interceptors. Kafka's clients fetch 50 MiB at once by default.
MAX_HELD_BYTES: Final = 64 * 1024 * 1024

_API_VERSIONS_CACHED = 512  # per connection; a client uses a few, but may send anything
_KEY_AND_VERSION = struct.Struct(">hh")


class InterceptedConnection:
    """Splits both directions into frames and shows interceptors the frames that they want.

    Feed bytes in the order they arrived, in chunks of any size. Bytes leave in the same order. Frames that no
    interceptor wants are not held back. If a direction does not consist of Kafka frames, its bytes pass unchanged from
    there on. Responses are paired with requests by correlation id; Kafka answers in order.

    Args:
        interceptors: Each gets the frames that the previous ones let pass.
        max_held_bytes: A larger frame passes unseen.
        report: Called for each frame that is too large.
    """

    def __init__(
        self,
        interceptors: Sequence[Interceptor],
        *,
        max_held_bytes: int = MAX_HELD_BYTES,
        report: Callable[[TooLarge], None] = lambda event: None,
    ) -> None:
        find_handling = functools.lru_cache(_API_VERSIONS_CACHED)(
            functools.partial(_find_handling, tuple(interceptors))
        )
        pending = PendingRequests()
        limits = Limits(max_held_bytes, report)
        self._pending = pending
        self._streams = (RequestStream(pending, limits, find_handling), ResponseStream(pending, limits, pending.find))

    def receive_data(self, direction: Direction, data: bytes) -> list[Delivery]:
        """Process the next bytes of one direction; return what to send now, in both directions.

        After a delivery with `close`, feed nothing more.
        """
        return self._streams[direction].push(data)

    def end(self, direction: Direction) -> list[Delivery]:
        """End the direction; return the held bytes of an incomplete frame, to be sent unchanged."""
        return self._streams[direction].end()


def _find_handling(interceptors: tuple[Interceptor, ...], key_and_version: bytes) -> Handling | None:
    """Return how frames of an API version are handled; None if requests and responses simply pass."""
    api_key, version = _KEY_AND_VERSION.unpack(key_and_version)
    requests, responses = (
        tuple(interceptor for interceptor in interceptors if interceptor.wants(direction, api_key, version))
        for direction in Direction
    )
    answers = any(interceptor.answers for interceptor in interceptors)
    if not (requests or responses or answers):
        return None
    return Handling(
        api_key, version, (requests, responses), bool(responses) or answers, answers and api_key == ApiKey.PRODUCE
    )
