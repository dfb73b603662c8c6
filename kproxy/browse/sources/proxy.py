"""A running proxy, watched over its control socket; a lost connection is retried."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from kproxy.browse.rows.store import Spool
from kproxy.browse.sources.source import Source, SourcePhase
from kproxy.control.client import ControlClient, connect
from kproxy.control.protocol import ControlError, Greeting, LateResponse
from kproxy.trace.encoding import encode_line, parse_line
from kproxy.trace.lines import FORMAT, CloseLine, GapLine, OpenLine
from kproxy.trace.timestamps import timestamp

#: Shown while the proxy is connected and sends nothing.
NOT_RESPONDING: Final = "the inspector does not respond: traffic is relayed, but not shown"
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
_SEGMENT: Final = 64 << 20
_OPEN: Final = b'{"kind":"open"'
_CLOSE: Final = b'{"kind":"close"'


class ProxySource(Source):
    """The lines of a running proxy, with frames and decoded records.

    Args:
        name: The name shown to the user.
        locate: Returns the current path of its control socket; may block, and may raise `ControlError`.
        keep: Bytes of lines to keep; the oldest are discarded.
    """

    is_stream = True

    def __init__(self, name: str, locate: Callable[[], Path], *, keep: int) -> None:
        self._spool = Spool(keep=keep, segment=min(_SEGMENT, keep // 4))
        super().__init__(name, self._spool)
        self._locate = locate
        self._open: dict[str, OpenLine] = {}
        self._greeting: Greeting | None = None
        self._lost_at = 0  # ns since the epoch

    @property
    def empty_message(self) -> str:
        """See `Source`."""
        if self._greeting is None:
            return super().empty_message
        addresses = " or ".join(_connectable(listener.listen) for listener in self._greeting.listeners)
        return f"Waiting for clients: set bootstrap.servers to {addresses}."

    async def run(self) -> None:
        """See `Source`."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                async with connect(await asyncio.to_thread(self._locate)) as client:
                    await self._start_watching(client)
                    pause_s = _FIRST_PAUSE_S
                    async for line in client:
                        self._add_line(line)
                reason = "it has ended"
            except ControlError as error:
                reason = str(error)
            except OSError as error:
                self.phase, self.sentence = SourcePhase.ENDED, f"out of disk space ({error.strerror})"
                return
            if self.phase is SourcePhase.LIVE:
                self._lost_at = time.time_ns()
            self.phase, self.sentence = SourcePhase.LOST, f"lost the connection to the proxy ({reason}); reconnecting"
            if (end_reason := self._end_reason()) is not None:
                self.phase, self.sentence = SourcePhase.ENDED, end_reason
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _end_reason(self) -> str | None:
        """Return why the proxy will not come back, if known."""
        return None

    async def _start_watching(self, client: ControlClient) -> None:
        greeting, last_greeting = client.greeting, self._greeting
        is_same = last_greeting is not None and (last_greeting.pid, last_greeting.started) == (
            greeting.pid,
            greeting.started,
        )
        restarted = last_greeting is not None and last_greeting.restarts != greeting.restarts  # so its backlog is new
        client.on_listeners = lambda: self._show_listeners(client.greeting)
        client.on_late = self._add_late_response
        client.watch_silence(self._show_silence)
        await client.request("watch", frames=True, payloads=True, backlog=not is_same or restarted)
        if last_greeting is not None:
            self._add_missed_lines(greeting, is_same=is_same)
        self._greeting = greeting
        self._show_listeners(greeting)
        self.phase, self.sentence = SourcePhase.LIVE, ""
        if greeting.trace is not None:
            self.messages.append(f"trace: {greeting.trace}")

    def _show_listeners(self, greeting: Greeting) -> None:
        self.name = _display_name(greeting)

    def _show_silence(self, silent: bool) -> None:
        self.sentence = NOT_RESPONDING if silent else ""

    def _add_late_response(self, late_response: LateResponse) -> None:
        self.late[late_response.connection_id] = late_response

    def _add_missed_lines(self, greeting: Greeting, *, is_same: bool) -> None:
        """Add lines about the missing data to the store; close the connections of a proxy that has ended."""
        lost_ts = timestamp(self._lost_at)
        if not is_same:
            for connection in self._open.values():
                closed = CloseLine(v=FORMAT, ts=lost_ts, connection_id=connection.connection_id,
                                   client=connection.client, server=connection.server,
                                   by="proxy", how="lost")  # fmt: skip
                self._spool.append(encode_line(closed))
            self._open.clear()
        reason = (
            f"the connection to the proxy was lost: no data until {timestamp(time.time_ns())[11:23]}"
            if is_same
            else f"the proxy ended: the following rows are from a new one, process {greeting.pid}"
        )
        gap = GapLine(v=FORMAT, ts=lost_ts, connection_id="", direction="both", bytes=0, reason=reason)
        self._spool.append(encode_line(gap))

    def _add_line(self, line: bytes) -> None:
        self._spool.append(line)
        if not line.startswith((_OPEN, _CLOSE)):
            return
        try:
            parsed = parse_line(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if isinstance(parsed, OpenLine):
            self._open[parsed.connection_id] = parsed
        else:
            self._open.pop(parsed.connection_id, None)
            self.late.pop(parsed.connection_id, None)


def _display_name(greeting: Greeting) -> str:
    pairs = greeting.pairs
    return ", ".join(pairs[:2]) + (f" and {len(pairs) - 2} more" if len(pairs) > 2 else "")


def _connectable(listener: str) -> str:
    """Return an address of a listener that a client on this machine can connect to."""
    for any_address in ("0.0.0.0:", "[::]:"):
        listener = listener.replace(any_address, "localhost:", 1) if listener.startswith(any_address) else listener
    return listener
