"""The process behind a browser window: passes on its output, and its last error."""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import suppress
from typing import Final

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

#: Seconds that a process has to end.
GRACE_S: Final = 3.0
_READY: Final = b"__GANGLION__\n"
_RESET: Final = b"\x1bc"
#: A terminal mode that is set or reset: the alternate screen, the mouse, the cursor.
_MODE: Final = re.compile(rb"\x1b\[\?(\d+)([hl])")
#: Ctrl-L, which makes an application redraw its screen.
_REDRAW: Final = b"\x0c"


class WindowProcess(AppService):
    """textual-serve's process; the window is notified when it ends, and why.

    It outlives its window: another window can be attached, and the screen is redrawn. Output in between is lost.
    """

    def __init__(self, command: str, downloads: DownloadManager) -> None:
        self.ended = False  # whether the process has ended
        self.detached_at = 0.0  # when the last window was detached
        self._window: web.WebSocketResponse | None = None
        self._modes: dict[bytes, bytes] = {}
        super().__init__(
            command, write_bytes=self._send_bytes, write_str=self._send_str, close=self._close,
            download_manager=downloads,
        )  # fmt: skip

    @property
    def is_attached(self) -> bool:
        """Whether a window is attached."""
        return self._window is not None

    async def _send_bytes(self, data: bytes) -> None:
        self._modes.update((mode, switch) for mode, switch in _MODE.findall(data))
        if self._window is not None:
            await self._window.send_bytes(data)

    async def _send_str(self, text: str) -> None:
        if self._window is not None:
            await self._window.send_str(text)

    async def _close(self) -> None:
        if self._window is not None:
            await self._window.close()

    async def attach(self, window: web.WebSocketResponse) -> None:
        """Attach a window, replacing another one; its terminal gets the current modes."""
        before, self._window = self._window, window
        if before is not None:
            await before.close()
        if self._modes:
            await window.send_bytes(b"".join(b"\x1b[?%s%s" % each for each in self._modes.items()))

    async def redraw(self, width: int, height: int) -> None:
        """Make the application redraw its screen."""
        await self.set_terminal_size(width, height)
        await self.send_bytes(_REDRAW)

    def detach(self, window: web.WebSocketResponse) -> None:
        """Detach a closed window."""
        if self._window is window:
            self._window = None
            self.detached_at = time.monotonic()

    async def run(self) -> None:
        """Pass on the process's output until it ends; then its standard error, which has the reason."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None
        passed_on = {b"D": self.on_data, b"M": self.on_meta, b"P": self.on_packed}
        async with asyncio.TaskGroup() as tasks:
            errors = tasks.create_task(process.stderr.read())
            with suppress(asyncio.IncompleteReadError):
                await process.stdout.readuntil(_READY)
                while True:
                    kind, size = await process.stdout.readexactly(1), await process.stdout.readexactly(4)
                    payload = await process.stdout.readexactly(int.from_bytes(size, "big"))
                    with suppress(ConnectionResetError):  # a closed window must not prevent the end
                        await passed_on[kind](payload)
        with suppress(ConnectionResetError):
            if reason := errors.result():
                await self.remote_write_bytes(_RESET + reason.replace(b"\n", b"\r\n"))
            await self.remote_close()
        self.ended = True

    async def on_meta(self, data: bytes) -> None:
        """Handle a control message of the process; its end is detected when it exits."""
        if json.loads(data)["type"] != "exit":
            await super().on_meta(data)

    async def end(self) -> None:
        """End the process; kill it after a timeout."""
        if (process := self._process) is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await self.stop()
                self.stdin.close()
                await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
