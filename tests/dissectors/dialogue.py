"""A connection for tests, and heartbeats to send through it."""

from __future__ import annotations

from typing import Any

from dissectors.connections.connection import Connection
from dissectors.connections.events import Direction, Event
from tests.dissectors.story import story
from tests.kproxy.frames import request, response

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
#: The request is 28 bytes long, its response 10.
HEARTBEAT = {"group_id": "grp", "generation_id": 3, "member_id": "m"}


def heartbeat(correlation_id: int) -> bytes:
    return request("Heartbeat", 0, HEARTBEAT, correlation_id=correlation_id, client_id="me")


def heartbeats(*correlation_ids: int) -> bytes:
    return b"".join(map(heartbeat, correlation_ids))


def heartbeat_response(correlation_id: int) -> bytes:
    return response("Heartbeat", 0, {"error_code": 0}, correlation_id=correlation_id)


def heartbeat_responses(*correlation_ids: int) -> bytes:
    return b"".join(map(heartbeat_response, correlation_ids))


class Dialogue:
    """A connection that receives chunks and returns its events as lines."""

    def __init__(self, **limits: Any) -> None:
        self.connection = Connection(**limits)
        self.events: list[Event] = []

    def client(self, *chunks: bytes) -> list[str]:
        return self._record([self.connection.receive_data(REQUEST, chunk, at=1) for chunk in chunks])

    def server(self, *chunks: bytes) -> list[str]:
        return self._record([self.connection.receive_data(RESPONSE, chunk, at=2) for chunk in chunks])

    def lose(self, direction: Direction, size: int, **options: Any) -> list[str]:
        return self._record([self.connection.lose_data(direction, size, at=3, reason="not captured", **options)])

    def close(self) -> list[str]:
        return self._record([self.connection.close(at=4)])

    def _record(self, events: list[list[Event]]) -> list[str]:
        self.events = [event for chunk_events in events for event in chunk_events]
        return story(self.events)
