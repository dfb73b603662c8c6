"""Firefox without a screen, driven over WebDriver BiDi; a page has the methods of `tests.peers.browser.Tab`."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.peers.browser import BasicTab
from tests.peers.processes import dies_with_us

_NAMES = ("firefox", "firefox-esr")
_SHIFT = "\ue008"
_KEYS = {
    "Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
    "ArrowRight": "\ue014", "ArrowDown": "\ue015", "PageDown": "\ue00f",
}  # fmt: skip


def firefox_executable() -> str | None:
    """Return the path of a Firefox on PATH, if any."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class FirefoxTab(BasicTab):
    """A page of Firefox."""

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._loop, self._socket = loop, socket
        self._last_id = 0
        self.events: list[dict[str, Any]] = []
        self._call("session.new", capabilities={})
        self._call("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        # Without a screen the first window is never active, so its page would get no focus events.
        self._context = self._call("browsingContext.create", type="window")["context"]

    def _call(self, command: str, **params: Any) -> dict[str, Any]:
        return self._loop.run_until_complete(self._receive_result(command, params))

    async def _receive_result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last_id += 1
        await self._socket.send_json({"id": self._last_id, "method": method, "params": params})
        while (response := json.loads((await self._socket.receive(timeout=90)).data)).get("id") != self._last_id:
            self.events.append(response)
        assert response["type"] == "success", response
        result: dict[str, Any] = response["result"]
        return result

    def navigate(self, url: str) -> None:
        self.events.clear()
        self._call("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def resize(self, width: int, height: int, **_: str) -> None:
        self._call("browsingContext.setViewport", context=self._context, viewport={"width": width, "height": height})

    def run(self, script: str) -> Any:
        target = {"context": self._context}
        result = self._call("script.evaluate", expression=script, target=target, awaitPromise=True)
        assert result["type"] == "success", result
        return _value(result["result"])

    def key(self, key: str) -> None:
        value = _KEYS.get(key, key)
        presses = [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._call(
            "input.performActions", context=self._context, actions=[{"type": "key", "id": "keys", "actions": presses}]
        )

    def point_at(self, x: float, y: float, *, click: bool = False) -> None:
        moves: list[dict[str, Any]] = [{"type": "pointerMove", "x": round(x), "y": round(y)}]
        moves += [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp") if click]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self._call("input.performActions", context=self._context, actions=[mouse])

    def swipe(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self._drag(start, end, "touch")

    def drag(self, start: tuple[float, float], end: tuple[float, float], *, shift: bool = False) -> None:
        self._drag(start, end, "mouse", *([_SHIFT] if shift else []))

    def _drag(
        self, start_position: tuple[float, float], end: tuple[float, float], pointer_type: str, *keys: str
    ) -> None:
        positions = [
            {"x": round(x), "y": round(y)}
            for x, y in (start_position, ((start_position[0] + end[0]) / 2, (start_position[1] + end[1]) / 2), end)
        ]
        start, *moves = [{"type": "pointerMove", **position} for position in positions]
        actions = [start, {"type": "pointerDown", "button": 0}, *moves, {"type": "pointerUp", "button": 0}]
        parameters = {"pointerType": pointer_type}
        pointer = {"type": "pointer", "id": pointer_type, "parameters": parameters, "actions": actions}
        pauses = [{"type": "pause"}] * (len(actions) - 2)
        strokes = [[{"type": "keyDown", "value": key}, *pauses, {"type": "keyUp", "value": key}] for key in keys]
        keyboards = [{"type": "key", "id": "keyboard", "actions": stroke} for stroke in strokes]
        self._call("input.performActions", context=self._context, actions=[pointer, *keyboards])

    def requested_urls(self) -> list[str]:
        urls = [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "network.beforeRequestSent"
        ]
        return [url for url in urls if not url.endswith("favicon.ico")]

    def errors(self) -> list[Any]:
        return [
            event
            for event in self.events
            if event["method"] == "log.entryAdded" and event["params"]["level"] == "error"
        ]


def _value(remote: dict[str, Any]) -> Any:
    """Convert a value from the page, as JSON would be."""
    kind, value = remote["type"], remote.get("value")
    if kind in ("array", "nodelist", "htmlcollection"):
        return [_value(element) for element in value or ()]
    if kind == "object":
        return {name: _value(item) for name, item in value or ()}
    return True if kind == "node" else value


@contextmanager
def firefox(program: str, profile: Path) -> Iterator[FirefoxTab]:
    """Run a Firefox with an empty profile during the block. Its downloads go to `profile / "downloads"`."""
    profile.mkdir(parents=True, exist_ok=True)
    preferences = {"browser.download.folderList": 2, "browser.download.dir": str(profile / "downloads")}
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items()]
    (profile / "user.js").write_text("".join(lines))
    command = [program, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    loop = asyncio.new_event_loop()
    with subprocess.Popen(
        dies_with_us(command), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env={"HOME": str(profile), "PATH": "/usr/bin:/bin"},
    ) as process:  # fmt: skip
        http = None
        try:
            assert process.stderr is not None
            matches = (re.search(r"WebDriver BiDi listening on (ws://\S+)", line) for line in process.stderr)
            address = next(filter(None, matches))[1]
            http = loop.run_until_complete(_open_http_session())
            socket = loop.run_until_complete(http.ws_connect(f"{address}/session", max_msg_size=0))
            yield FirefoxTab(loop, socket)
            loop.run_until_complete(socket.close())
        finally:
            if http is not None:
                loop.run_until_complete(http.close())
            loop.close()
            process.kill()


async def _open_http_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()
