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
_KEYS = {
    "Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
    "ArrowRight": "\ue014", "ArrowDown": "\ue015",
}  # fmt: skip


def firefox_executable() -> str | None:
    """A Firefox on PATH."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class FirefoxTab(BasicTab):
    """A page of Firefox."""

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._loop, self._socket = loop, socket
        self._last = 0
        self.told: list[dict[str, Any]] = []
        self._ask("session.new", capabilities={})
        self._ask("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        # The first window is never active without a screen: its page would get no events of the focus.
        self._context = self._ask("browsingContext.create", type="window")["context"]

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self._loop.run_until_complete(self._asked(method, params))

    async def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        await self._socket.send_json({"id": self._last, "method": method, "params": params})
        while (answer := json.loads((await self._socket.receive(timeout=90)).data)).get("id") != self._last:
            self.told.append(answer)
        assert answer["type"] == "success", answer
        result: dict[str, Any] = answer["result"]
        return result

    def navigate(self, url: str) -> None:
        self.told.clear()
        self._ask("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def resize(self, width: int, height: int, **_: str) -> None:
        self._ask("browsingContext.setViewport", context=self._context, viewport={"width": width, "height": height})

    def run(self, script: str) -> Any:
        target = {"context": self._context}
        done = self._ask("script.evaluate", expression=script, target=target, awaitPromise=True)
        assert done["type"] == "success", done
        return _value(done["result"])

    def key(self, key: str) -> None:
        value = _KEYS.get(key, key)
        presses = [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._ask(
            "input.performActions", context=self._context, actions=[{"type": "key", "id": "keys", "actions": presses}]
        )

    def point_at(self, x: float, y: float, *, click: bool = False) -> None:
        moves: list[dict[str, Any]] = [{"type": "pointerMove", "x": round(x), "y": round(y)}]
        moves += [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp") if click]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self._ask("input.performActions", context=self._context, actions=[mouse])

    def swipe(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        places = [
            {"x": round(x), "y": round(y)} for x, y in (begin, ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2), end)
        ]
        start, *moves = [{"type": "pointerMove", **place} for place in places]
        actions = [start, {"type": "pointerDown", "button": 0}, *moves, {"type": "pointerUp", "button": 0}]
        finger = {"type": "pointer", "id": "finger", "parameters": {"pointerType": "touch"}, "actions": actions}
        self._ask("input.performActions", context=self._context, actions=[finger])

    def asked(self) -> list[str]:
        found = [
            each["params"]["request"]["url"] for each in self.told if each["method"] == "network.beforeRequestSent"
        ]
        return [url for url in found if not url.endswith("favicon.ico")]

    def errors(self) -> list[Any]:
        return [each for each in self.told if each["method"] == "log.entryAdded" and each["params"]["level"] == "error"]


def _value(remote: dict[str, Any]) -> Any:
    """A value of a page, as JSON would have it."""
    kind, value = remote["type"], remote.get("value")
    if kind in ("array", "nodelist", "htmlcollection"):
        return [_value(element) for element in value or ()]
    if kind == "object":
        return {name: _value(each) for name, each in value or ()}
    return True if kind == "node" else value


@contextmanager
def firefox(program: str, profile: Path) -> Iterator[FirefoxTab]:
    """A Firefox with an empty profile, for as long as the block lasts."""
    profile.mkdir(parents=True, exist_ok=True)
    command = [program, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    loop = asyncio.new_event_loop()
    with subprocess.Popen(
        dies_with_us(command), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env={"HOME": str(profile), "PATH": "/usr/bin:/bin"},
    ) as process:  # fmt: skip
        http = None
        try:
            assert process.stderr is not None
            said = (re.search(r"WebDriver BiDi listening on (ws://\S+)", line) for line in process.stderr)
            address = next(filter(None, said))[1]
            http = loop.run_until_complete(_session())
            socket = loop.run_until_complete(http.ws_connect(f"{address}/session", max_msg_size=0))
            yield FirefoxTab(loop, socket)
            loop.run_until_complete(socket.close())
        finally:
            if http is not None:
                loop.run_until_complete(http.close())
            loop.close()
            process.kill()


async def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()
