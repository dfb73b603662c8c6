"""InspectorWatch: notices, in the relay's loop, that the inspector is stopped or stuck in one frame."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Self

from dissectors import schemas
from kproxy.proxy.events import InspectorNotResponding, InspectorResponds, Report
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.proxy.tap import Tap

#: Seconds without any progress after which the inspector counts as stuck.
STUCK_AFTER_S: Final = 4.0
_PERIOD_S: Final = 0.5
_MAX_MARKS: Final = 4096


class InspectorWatch:
    """Compares the messages sent with those inspected, twice a second while the `with` block lasts.

    Time during which the relay itself did not run (a suspended laptop, a stopped container) does not count.

    Args:
        tap: Sends to the inspector.
        activity: Progress that the inspector records.
        report: Called with events that the user should know about.
    """

    def __init__(self, tap: Tap, activity: InspectorActivity, report: Report) -> None:
        self._tap = tap
        self._activity = activity
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._looked_at = 0.0  # in the loop's time
        self._now = 0.0  # seconds during which the relay ran
        self._state = (0, 0, 0)  # the inspector's number, the messages it has inspected, the turns of its loop
        self._progress_at = 0.0
        self._is_stuck = False
        #: Times at which the tap had sent certain numbers of messages, as long as these are not all inspected.
        self._marks: deque[tuple[float, int]] = deque()

    def __enter__(self) -> Self:
        self._looked_at = self._loop.time()
        self._timer = self._loop.call_later(_PERIOD_S, self._tick)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def is_stuck(self) -> bool:
        """Whether an inspector is running but does not respond."""
        return self._is_stuck and not self._tap.lost

    @property
    def lag(self) -> float:
        """The age in seconds of the oldest uninspected message; it may be up to half a second more."""
        if self._tap.lost:
            return 0.0
        self._forget_inspected()
        if not self._marks:
            return 0.0
        return max(self._now + min(self._loop.time() - self._looked_at, 2 * _PERIOD_S) - self._marks[0][0], 0.0)

    def _tick(self) -> None:
        now = self._loop.time()
        self.update(now - self._looked_at)
        self._looked_at = now
        self._timer = self._loop.call_later(_PERIOD_S, self._tick)

    def update(self, elapsed: float) -> None:
        """Compare the messages sent and inspected; `elapsed` seconds have passed since the last call."""
        self._now += min(elapsed, 2 * _PERIOD_S)
        activity, tap = self._activity, self._tap
        sent_messages, (inspector, inspected, turns) = tap.messages, self._state
        self._state = tap.inspector, activity.inspected, activity.turns
        if tap.lost or tap.inspector != inspector:
            self._marks.clear()
            self._is_stuck = False
            self._progress_at = self._now
            return
        self._forget_inspected()
        if len(self._marks) < _MAX_MARKS and sent_messages > (
            self._marks[-1][1] if self._marks else activity.inspected
        ):
            self._marks.append((self._now, sent_messages))
        # The loop also turns while a worker is stuck.
        if activity.inspected != inspected or (activity.turns != turns and activity.inspected >= sent_messages):
            if self._is_stuck:
                self._is_stuck = False
                self._report(InspectorResponds(self._now - self._progress_at))
            self._progress_at = self._now
        elif not self._is_stuck and self._now - self._progress_at >= STUCK_AFTER_S:
            self._is_stuck = True
            self._report(InspectorNotResponding(self._now - self._progress_at, *self._position()))

    def _forget_inspected(self) -> None:
        inspected = self._activity.inspected
        while self._marks and self._marks[0][1] <= inspected:
            self._marks.popleft()

    def _position(self) -> tuple[str | None, str | None]:
        """Return the connection, with its client, and the API of the inspector's current frame, as far as known."""
        number, api_key = self._activity.connection, self._activity.api_key
        if not number:
            return None, None
        client = self._tap.connections.client(number)
        connection = f"{number}" if client is None else f"{number} (client {client})"
        api = None if api_key is None else schemas.api(api_key)
        return connection, None if api_key is None else f"API key {api_key}" if api is None else api.name
