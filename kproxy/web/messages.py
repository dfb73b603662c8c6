"""Messages of a window's websocket, as textual-serve's page sends them. Anything else is ignored."""

from __future__ import annotations

import json
from typing import Any, Final

from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService

#: Columns and rows of a window; the memory of a session grows with their product.
MOST_COLUMNS: Final = 500
MOST_ROWS: Final = 200
#: Limit for one message; the largest are pasted texts.
MOST_BYTES: Final = 1 << 20


def window_size(width: object, height: object) -> tuple[int, int]:
    """Columns and rows within the limits; 80 and 24 for what is not a number."""
    return _limited(width, 80, MOST_COLUMNS), _limited(height, 24, MOST_ROWS)


def _limited(value: object, default: int, most: int) -> int:
    try:
        number = int(value) if isinstance(value, int | str) else default
    except ValueError:
        number = default
    return min(max(number, 1), most)


async def pass_on(websocket: web.WebSocketResponse, session: AppService) -> None:
    """Pass on the messages of a window to its session until it closes."""
    async for message in websocket:
        if message.type is WSMsgType.TEXT:
            await _pass_on(_parsed(message.data), websocket, session)


async def _pass_on(message: list[Any], websocket: web.WebSocketResponse, session: AppService) -> None:
    match message:
        case ["stdin", str(text)]:
            await session.send_bytes(text.encode("utf-8", "replace"))
        case ["resize", {"width": width, "height": height}]:
            await session.set_terminal_size(*window_size(width, height))
        case ["ping", str() | int() | float() | None as data]:
            await websocket.send_json(["pong", data])
        case ["blur", *_]:
            await session.blur()
        case ["focus", *_]:
            await session.focus()


def _parsed(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
