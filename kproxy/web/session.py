"""A browser window's process: what it says goes to the window, also what it says last."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Final

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

#: Seconds that a process has to end.
GRACE_S: Final = 3.0
_BEGUN: Final = b"__GANGLION__\n"
_RESET: Final = b"\x1bc"


class Session(AppService):
    """textual-serve's, which ends with its process: a window is told at once, and why."""

    def __init__(self, command: str, window: web.WebSocketResponse, downloads: DownloadManager) -> None:
        async def close() -> None:
            await window.close()

        super().__init__(
            command, write_bytes=window.send_bytes, write_str=window.send_str, close=close, download_manager=downloads
        )

    async def run(self) -> None:
        """Pass on what the process says until it ends; then its standard error, which has the reason."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None
        passed_on = {b"D": self.on_data, b"M": self.on_meta, b"P": self.on_packed}
        async with asyncio.TaskGroup() as tasks:
            errors = tasks.create_task(process.stderr.read())
            with suppress(asyncio.IncompleteReadError):
                await process.stdout.readuntil(_BEGUN)
                while True:
                    kind, size = await process.stdout.readexactly(1), await process.stdout.readexactly(4)
                    payload = await process.stdout.readexactly(int.from_bytes(size, "big"))
                    with suppress(ConnectionResetError):  # a window that has gone keeps nobody from ending
                        await passed_on[kind](payload)
        with suppress(ConnectionResetError):
            if reason := errors.result():
                await self.remote_write_bytes(_RESET + reason.replace(b"\n", b"\r\n"))
            await self.remote_close()

    async def on_meta(self, data: bytes) -> None:
        """Heed what the process asks for; that it is about to end is seen when it has."""
        if json.loads(data)["type"] != "exit":
            await super().on_meta(data)

    async def end(self) -> None:
        """Have the process end; one that does not in time is killed."""
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
