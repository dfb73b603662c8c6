"""The broker's clock and timers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call."""


class Clock:
    """Wall-clock time in milliseconds since the epoch, as Kafka counts it, and timers on the running event loop."""

    def now(self) -> int:
        """Return the milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def schedule(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` in `delay_ms` milliseconds unless the returned timer is cancelled."""
        return asyncio.get_running_loop().call_later(max(delay_ms, 0) / 1000, callback)
