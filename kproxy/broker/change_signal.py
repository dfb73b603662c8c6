"""ChangeSignal: lets tasks wait until something changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class ChangeSignal:
    """Notifies waiters that an object (a log, a group) has changed; they check whether the change concerns them."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Wake all waiters."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)


async def wait_for_any(changes: Iterable[ChangeSignal], timeout_ms: float) -> bool:
    """Wait until one of these signals is notified, for at most `timeout_ms`; return whether one was."""
    future = asyncio.get_running_loop().create_future()
    signals = list(changes)
    for signal in signals:
        signal._waiting.add(future)
    try:
        async with asyncio.timeout(max(timeout_ms, 0) / 1000):
            await future
    except TimeoutError:
        return False
    finally:
        for signal in signals:
            signal._waiting.discard(future)
    return True
