"""A running proxy, watched over its control socket; one that is lost is looked for again."""

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
from kproxy.control.protocol import ControlError, Greeting
from kproxy.trace.clock import timestamp
from kproxy.trace.encoding import encode_line, parse_line
from kproxy.trace.lines import FORMAT, CloseLine, GapLine, OpenLine

_FIRST_REST: Final = 0.2
_LONGEST_REST: Final = 5.0
_SEGMENT: Final = 64 << 20
_OPEN: Final = b'{"kind":"open"'
_CLOSE: Final = b'{"kind":"close"'


class ProxySource(Source):
    """What a proxy tells, with the frames.

    Args:
        name: What the user calls it.
        locate: Where its control socket is now; may block, and raise `ControlError`.
        keep: Bytes of lines to keep; the oldest go.
    """

    is_stream = True

    def __init__(self, name: str, locate: Callable[[], Path], *, keep: int) -> None:
        self._spool = Spool(keep=keep, segment=min(_SEGMENT, keep // 4))
        super().__init__(name, self._spool)
        self._locate = locate
        self._open: dict[str, OpenLine] = {}
        self._seen: Greeting | None = None
        self._lost_at = 0  # ns since the epoch

    @property
    def nothing(self) -> str:
        """See `Source`."""
        if self._seen is None:
            return super().nothing
        addresses = " or ".join(_reachable(each.listen) for each in self._seen.listeners)
        return f"Waiting for clients: set bootstrap.servers to {addresses}."

    async def run(self) -> None:
        """See `Source`."""
        rest = _FIRST_REST
        while True:
            try:
                async with connect(await asyncio.to_thread(self._locate)) as client:
                    await self._begin(client)
                    rest = _FIRST_REST
                    async for line in client:
                        self._take(line)
                why = "it has ended"
            except ControlError as error:
                why = str(error)
            except OSError as error:
                self.phase, self.sentence = SourcePhase.ENDED, f"out of disk space ({error.strerror})"
                return
            if self.phase is SourcePhase.LIVE:
                self._lost_at = time.time_ns()
            self.phase, self.sentence = SourcePhase.LOST, f"lost the connection to the proxy ({why}); reconnecting"
            if (over := self._over()) is not None:
                self.phase, self.sentence = SourcePhase.ENDED, over
                return
            await asyncio.sleep(rest)
            rest = min(2 * rest, _LONGEST_REST)

    def _over(self) -> str | None:
        """Why it will not come back, if that is known."""
        return None

    async def _begin(self, client: ControlClient) -> None:
        greeting, seen = client.greeting, self._seen
        is_same = seen is not None and (seen.pid, seen.started) == (greeting.pid, greeting.started)
        restarted = seen is not None and seen.restarts != greeting.restarts  # then the backlog is new too
        await client.ask("watch", frames=True, backlog=not is_same or restarted)
        if seen is not None:
            self._tell_missed(greeting, is_same=is_same)
        self._seen = greeting
        if greeting.built_in:  # its own ports are internal: clients know the listeners
            self.server_names = {each.upstream: each.listen for each in greeting.listeners}
        self.name = _name(greeting)
        self.phase, self.sentence = SourcePhase.LIVE, ""
        if greeting.trace is not None:
            self.messages.append(f"trace: {greeting.trace}")

    def _tell_missed(self, greeting: Greeting, *, is_same: bool) -> None:
        """Say in the store that something is missing; of a proxy that is gone, no connection is open any more."""
        lost = timestamp(self._lost_at)
        if not is_same:
            for each in self._open.values():
                closed = CloseLine(v=FORMAT, ts=lost, connection_id=each.connection_id, client=each.client,
                                   server=each.server, by="proxy", how="lost")  # fmt: skip
                self._spool.append(encode_line(closed))
            self._open.clear()
        reason = (
            f"the connection to the proxy was lost: no data until {timestamp(time.time_ns())[11:23]}"
            if is_same
            else f"the proxy ended: the following rows are from a new one, process {greeting.pid}"
        )
        gap = GapLine(v=FORMAT, ts=lost, connection_id="", direction="both", bytes=0, reason=reason)
        self._spool.append(encode_line(gap))

    def _take(self, line: bytes) -> None:
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


def _name(greeting: Greeting) -> str:
    pairs = greeting.pairs
    return ", ".join(pairs[:2]) + (f" and {len(pairs) - 2} more" if len(pairs) > 2 else "")


def _reachable(listener: str) -> str:
    """An address of a listener that a client on this machine can connect to."""
    for every in ("0.0.0.0:", "[::]:"):
        listener = listener.replace(every, "localhost:", 1) if listener.startswith(every) else listener
    return listener
