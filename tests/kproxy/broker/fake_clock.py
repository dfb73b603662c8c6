"""A clock that stands still until a test advances it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kproxy.broker.clock import Clock, Timer


@dataclass(eq=False)
class _FakeTimer(Timer):
    at: float
    call: Callable[[], None]
    off: bool = False

    def cancel(self) -> None:
        self.off = True


class FakeClock(Clock):
    """Time in ms, from 1,000,000 on."""

    def __init__(self) -> None:
        self.time = 1_000_000
        self._later: list[_FakeTimer] = []

    def now(self) -> int:
        return self.time

    def schedule(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        self._later.append(timer := _FakeTimer(self.time + max(delay_ms, 0), call))
        return timer

    def advance(self, ms: int = 0) -> None:
        """Let time pass, and call what is due, in order."""
        end = self.time + ms
        while due := [each for each in self._later if not each.off and each.at <= end]:
            first = min(due, key=lambda each: each.at)
            self._later.remove(first)
            self.time = max(self.time, int(first.at))
            first.call()
        self.time = end
