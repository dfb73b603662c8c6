"""A clock that stands still until a test advances it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kproxy.broker.clock import Clock, Timer


@dataclass(eq=False)
class _FakeTimer(Timer):
    at: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock(Clock):
    """A clock in ms that starts at 1,000,000."""

    def __init__(self) -> None:
        self.time = 1_000_000
        self._timers: list[_FakeTimer] = []

    def now(self) -> int:
        return self.time

    def schedule(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        self._timers.append(timer := _FakeTimer(self.time + max(delay_ms, 0), call))
        return timer

    def advance(self, ms: int = 0) -> None:
        """Advance the time, and call the timers that are due, in order."""
        end = self.time + ms
        while due := [timer for timer in self._timers if not timer.cancelled and timer.at <= end]:
            next_timer = min(due, key=lambda timer: timer.at)
            self._timers.remove(next_timer)
            self.time = max(self.time, int(next_timer.at))
            next_timer.callback()
        self.time = end
