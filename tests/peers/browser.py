"""A real browser without a screen, driven over two pipes with the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.peers.processes import dies_with_us, until

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)


def executable() -> str | None:
    """Return the path of a browser on PATH, if any."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """A running browser, with a pipe for requests and one for responses.

    `events` are the events of all its pages, the newest last.
    """

    def __init__(self, request_pipe: int, response_pipe: int) -> None:
        self.events: deque[dict[str, Any]] = deque(maxlen=10_000)
        self._request_pipe, self._response_pipe = request_pipe, response_pipe
        self._buffer = b""
        self._last_id = 0

    def call(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """Call a method of the browser, or of a page with `session`."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._request_pipe, json.dumps(message).encode() + b"\0")
        while (response := self._read_message()).get("id") != self._last_id:
            self.events.append(response)
        assert "error" not in response, response
        result: dict[str, Any] = response["result"]
        return result

    def _read_message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._response_pipe, 1 << 16)
            assert data, "the browser has gone"
            self._buffer += data
        message_bytes, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(message_bytes)
        return message


class BasicTab:
    """The interface of a page in any browser, with methods based on those of the subclass."""

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        raise NotImplementedError

    def point_at(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the pointer to a position, and click if requested."""
        raise NotImplementedError

    def swipe(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Swipe with a finger from one position to another."""
        raise NotImplementedError

    def drag(self, start: tuple[float, float], end: tuple[float, float], *, shift: bool = False) -> None:
        """Drag with the mouse from one position to another, with the Shift key if requested."""
        raise NotImplementedError

    def key(self, key: str) -> None:
        """Press a key."""
        raise NotImplementedError

    def navigate(self, url: str) -> None:
        """Open an address; forget events of the previous page."""
        raise NotImplementedError

    def resize(self, width: int, height: int, **media: str) -> None:
        """Set the size of the page in pixels, and CSS media features."""
        raise NotImplementedError

    def requested_urls(self) -> list[str]:
        """Return the addresses of all requests."""
        raise NotImplementedError

    def errors(self) -> list[Any]:
        """Return the errors of the page."""
        raise NotImplementedError

    def until(self, script: str) -> Any:
        """Wait until an expression is true; return its value, or True for an element."""
        return until(script, lambda: self.run(f"(found => found instanceof Node || found)({script})"))

    def point(self, element: str, *, click: bool = False) -> None:
        """Move the pointer to the middle of an element, and click if requested."""
        x, y = self.run(f"(() => {{ const box = ({element}).getBoundingClientRect();"
                        " return [box.x + box.width / 2, box.y + box.height / 2]; })()")  # fmt: skip
        self.point_at(x, y, click=click)


class Tab(BasicTab):
    """A page of Chromium."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.events = browser.events
        target = browser.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = browser.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the page."""
        return self.browser.call(method, params, self._session)

    def resize(self, width: int, height: int, **media: str) -> None:
        """Set the size of the page in pixels, and CSS media features."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.call("Emulation.setEmulatedMedia", features=features)

    def navigate(self, url: str) -> None:
        """See `BasicTab`."""
        self.events.clear()
        self.call("Page.navigate", url=url)

    def errors(self) -> list[Any]:
        """See `BasicTab`."""
        return [event for event in self.events if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]

    def picture(self) -> bytes:
        """Return a screenshot of the page, as PNG."""
        self.call("Page.bringToFront")  # a page in the background is not drawn
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def requested_urls(self) -> list[str]:
        """Return the addresses of all requests."""
        events = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in events]

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def key(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def swipe(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """See `BasicTab`."""
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        for kind, position in (("touchStart", start), ("touchMove", middle), ("touchMove", end), ("touchEnd", None)):
            points = [] if position is None else [{"x": position[0], "y": position[1]}]
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    def drag(self, start: tuple[float, float], end: tuple[float, float], *, shift: bool = False) -> None:
        """See `BasicTab`."""
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        moves = (("mousePressed", start), ("mouseMoved", middle), ("mouseMoved", end), ("mouseReleased", end))
        for kind, (x, y) in moves:
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1,
                modifiers=8 if shift else 0,
            )  # fmt: skip

    def point_at(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the pointer to a position, and click if requested."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Tab]:
    """Run a browser with an empty profile during the block."""
    browser_input, requests = os.pipe()
    responses, browser_output = os.pipe()
    # The browser reads from descriptor 3 and writes to 4.
    command = [
        "bash",
        "-c",
        f'exec "$@" 3<&{browser_input} 4>&{browser_output}',
        "bash",
        program,
        *_FLAGS,
        f"--user-data-dir={profile}",
    ]
    process = subprocess.Popen(
        dies_with_us(command),
        pass_fds=(browser_input, browser_output),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(browser_input)
    os.close(browser_output)
    try:
        yield Tab(Browser(requests, responses))
    finally:
        process.kill()
        process.wait()
        os.close(requests)
        os.close(responses)
