"""Replays steps at a broker: sends requests in the captured order, each after the responses that preceded it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kproxy.client.connection import BrokerConnection, NoResponse
from kproxy.client.exchange import expects_response
from kproxy.errors import UserError
from kproxy.proxy.address import TcpAddress
from kproxy.replay.exchange import ReplayedExchange, Replayer, ReplayOutcome
from kproxy.replay.steps import Action, CapturedExchange, Step

_RETRY_S = 0.1


@dataclass(slots=True)
class _LiveConnection:
    """A live connection: `waiting` lists the unanswered requests in order; `failure` says why it cannot be used."""

    connection: BrokerConnection | None = None
    waiting: deque[CapturedExchange] = field(default_factory=deque)
    failure: str = ""


class Replay:
    """Replays steps, once.

    Args:
        connect: Opens a connection to a broker (None: the one that the user gave), and logs in.
        replayer: Makes the requests and judges the responses.
        speed: 2 is twice as fast as captured; None means without delays.
        timeout_s: How many seconds longer than in the capture a response may take.
    """

    def __init__(
        self,
        connect: Callable[[TcpAddress | None], Awaitable[BrokerConnection]],
        replayer: Replayer,
        *,
        speed: float | None = None,
        timeout_s: float = 10,
    ) -> None:
        self._connect, self._replayer, self._speed, self._timeout_s = connect, replayer, speed, timeout_s
        self._connections: defaultdict[str, dict[TcpAddress | None, _LiveConnection]] = defaultdict(dict)
        self._has_connected = False
        self._given_up: set[CapturedExchange] = set()

    async def run(self, steps: Sequence[Step]) -> AsyncIterator[ReplayedExchange]:
        """Replay the steps; yield each exchange when its outcome is known.

        Raises:
            UserError: The first connection, or its login, fails.
        """
        started_at = time.monotonic()
        try:
            for step in steps:
                if self._speed is not None and step.action is Action.SEND:
                    due_at = started_at + (step.at - steps[0].at) / 1e9 / self._speed
                    await asyncio.sleep(due_at - time.monotonic())
                if step.exchange is None:
                    for result in self._close(step.connection_id):
                        yield result
                elif step.action is Action.SEND:
                    if (outcome := await self._send(step.exchange)) is not None:
                        yield outcome
                else:
                    async for result in self._receive(step.exchange):
                        yield result
            for connection_id in [*self._connections]:
                for result in self._close(connection_id):
                    yield result
        finally:
            for connections in self._connections.values():
                for connection in connections.values():
                    if connection.connection is not None:
                        connection.connection.close()

    async def _send(self, exchange: CapturedExchange) -> ReplayedExchange | None:
        """Send a request. Return None if the outcome depends on the response."""
        if exchange.left_out:
            return ReplayedExchange(exchange, ReplayOutcome.LEFT_OUT, exchange.left_out)
        live = await self._live_connection(exchange.connection_id, self._replayer.address(exchange))
        if live.connection is None or live.failure:
            return ReplayedExchange(exchange, ReplayOutcome.DIFFERENT, f"not sent: {live.failure}")
        frame = self._replayer.frame(exchange)
        live.connection.send(frame)
        if not expects_response(frame):
            return ReplayedExchange(exchange, ReplayOutcome.NOT_COMPARED, "it has no response")
        live.waiting.append(exchange)
        return None

    async def _live_connection(self, connection_id: str, address: TcpAddress | None) -> _LiveConnection:
        """Return the live connection to an address for a captured one, which may need several in a cluster."""
        live = self._connections[connection_id].get(address)
        if live is None:
            live = _LiveConnection()
            try:
                live.connection = await self._connect(address)
            except UserError as error:
                if not self._has_connected:
                    raise
                live.failure = str(error)
            self._has_connected = True
            self._connections[connection_id][address] = live
        return live

    async def _receive(self, exchange: CapturedExchange) -> AsyncIterator[ReplayedExchange]:
        """Receive responses up to and including that of this exchange."""
        connections = self._connections.get(exchange.connection_id, {}).values()
        live = next((connection for connection in connections if exchange in connection.waiting), None)
        timeout_s = self._timeout_s + exchange.latency_us / 1e6
        give_up_at = time.monotonic() + timeout_s
        while live is not None and live.connection is not None and exchange in live.waiting:
            try:
                frame = await live.connection.receive(timeout_s)
            except NoResponse as no_response:
                if no_response.closed:
                    live.failure = str(no_response)
                    lost_exchanges, live.waiting = live.waiting, deque()
                else:  # the response may still come, before the next one
                    lost_exchanges = deque([exchange])
                for lost_exchange in lost_exchanges:
                    if lost_exchange not in self._given_up:
                        yield ReplayedExchange(lost_exchange, ReplayOutcome.DIFFERENT, f"no response: {no_response}")
                self._given_up |= set(lost_exchanges)
                return
            oldest = live.waiting[0]
            may_retry = len(live.waiting) == 1 and time.monotonic() < give_up_at
            if may_retry and (retry_frame := self._replayer.frame_to_resend(oldest, frame)) is not None:
                await asyncio.sleep(_RETRY_S)
                live.connection.send(retry_frame)
                continue
            live.waiting.popleft()
            result = self._replayer.handle_response(oldest, frame)
            if oldest not in self._given_up:
                yield result

    def _close(self, connection_id: str) -> list[ReplayedExchange]:
        """Close a connection. Return outcomes for the requests without a captured response, which are not awaited."""
        live_connections = self._connections.pop(connection_id, {}).values()
        for live in live_connections:
            if live.connection is not None:
                live.connection.close()
        return [
            ReplayedExchange(exchange, ReplayOutcome.NOT_COMPARED, "the capture has no response")
            for live in live_connections
            for exchange in live.waiting
            if exchange not in self._given_up
        ]
