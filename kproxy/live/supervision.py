"""Restarts the inspector when it has failed or was killed, and gives up if it fails repeatedly."""

# Rule 1: there is never more than one inspector; another one starts only after the last has ended.
#
# Rule 2: an inspector that fails is replaced, but not endlessly: `RestartPolicy` decides when to give up; then the
# relay continues without one.
#
# Rule 3: after `close`, no inspector starts except the one that writes the missing gap lines.

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from kproxy.live.inspector_process import FAILED, LEFT
from kproxy.live.restart_policy import MAX_RESTARTS, WINDOW_S, RestartPolicy
from kproxy.live.spawner import NOT_STARTED, Spawner
from kproxy.proxy.events import InspectorLost, InspectorRestarting, Report, SpawnerKilled
from kproxy.proxy.shortage import is_shortage
from kproxy.proxy.sockets import reason
from kproxy.proxy.tap import Tap

#: Seconds between attempts to start an inspector while no file descriptors are left.
SHORTAGE_RETRY_S: Final = 1.0

#: An inspector is killed this many seconds before the deadline, so that another one can write gap lines.
GAPS_S: Final = 2.0
#: Seconds before that, an inspector that works is asked to end with a summary.
LEAVE_S: Final = 1.5
#: Seconds that an inspector has to finish if the user does not want to wait.
AT_ONCE_S: Final = 1.0
_PERIOD_S: Final = 0.1

SPAWNER_LOST: Final = "the process that starts inspectors was killed"


class Supervisor:
    """Connects the tap to a new inspector when the last one has ended. Runs in the relay's loop and never blocks it.

    Args:
        spawner: The spawner, which has started the first inspector.
        tap: Sends to that inspector.
        report: Called with events that the user should know about.
    """

    def __init__(self, spawner: Spawner, tap: Tap, report: Report) -> None:
        self.failed = False  # whether an inspector has ended before the relay
        self.unfinished = False  # whether the inspector was killed, or left, because it did not finish in time
        self.statuses: list[int] = []  # exit statuses after the end of the relay
        self._deadline: float | None = None
        self._ended = asyncio.Event()  # after the relay, the inspector has ended too, or the spawner is gone
        self._kill_timer: asyncio.TimerHandle | None = None
        self._spawner = spawner
        self._tap = tap
        self._report = report
        self._closed = False
        self._waits_for_resources = False  # if true, the user was told
        self._loop = asyncio.get_running_loop()
        self._policy = RestartPolicy()
        self._restart_timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(spawner.channel, self._on_readable)

    def start_shutdown(self, deadline: float, at_once: asyncio.Event) -> None:
        """Limit the time that the inspector has to finish, because the relay was asked to end.

        Args:
            deadline: When all processes must have ended (in the loop's time).
            at_once: Set if the user does not want to wait.
        """
        self._deadline = deadline
        now = self._loop.time()
        middle = (now + deadline) / 2
        kill_at = max(deadline - GAPS_S, middle)
        self._end_overdue(max(kill_at - LEAVE_S, middle), kill_at, at_once)

    def close(self, *, restart: bool = False) -> None:
        """Start no more inspectors, because the relay is about to end.

        Args:
            restart: Whether to do a scheduled restart now, so that the trace reports what is missing.
        """
        if self._closed:
            return
        self._closed = True
        if self._restart_timer is not None:
            self._restart_timer.cancel()
            if restart:
                self._restart()
        if self._deadline is None:
            self._loop.remove_reader(self._spawner.channel)
            self._tap.mark_last()

    async def finish(self, close_tap: Callable[[], Awaitable[None]]) -> None:
        """Wait for the inspector after the relay has ended; if it did not finish, let another one write gap lines.

        Args:
            close_tap: Sends everything that the tap has queued, and its last message.
        """
        self.close()
        if self._deadline is None:  # the relay did not start
            return
        if self._tap.gone:
            self._spawner.dismiss()
        else:
            await self._wait_for_end()
        if self._kill_timer is not None:
            self._kill_timer.cancel()  # the next inspector has until the deadline
        if self.unfinished and self._ended.is_set() and not self._tap.gone:
            self._spawner.table.activity.must_leave = False
            self._tap.mark_lost()
            self._tap.mark_last()
            self._ended.clear()
            self.statuses.clear()
            with suppress(OSError, TimeoutError):
                self._tap.resume(self._spawner.spawn())
                async with asyncio.timeout_at(self._deadline):
                    await close_tap()
                    await self._ended.wait()
        self._loop.remove_reader(self._spawner.channel)

    async def _wait_for_end(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._deadline):
                await self._ended.wait()

    def _end_overdue(self, leave_at: float, kill_at: float, at_once: asyncio.Event | None) -> None:
        """Ask the inspector to leave if it has not ended in time, then kill it; another one can write gap lines."""
        if self._ended.is_set():
            return
        now = self._loop.time()
        if at_once is not None and at_once.is_set():
            leave_at, kill_at, at_once = now, min(kill_at, now + AT_ONCE_S), None
        if leave_at <= now:
            self._spawner.table.activity.must_leave = True
        if now < kill_at:
            self._kill_timer = self._loop.call_at(
                min(kill_at, now + _PERIOD_S), self._end_overdue, leave_at, kill_at, at_once
            )
        else:
            self.unfinished = True
            self._spawner.kill()

    def _on_readable(self) -> None:
        statuses = self._spawner.drain_statuses()
        if statuses is None:
            self._loop.remove_reader(self._spawner.channel)
            self._tap.mark_last()
            self._ended.set()
            if self._tap.lost:
                self._give_up(SPAWNER_LOST)
            elif not self._closed:
                self._report(SpawnerKilled())
            return
        if self._closed and statuses:
            self.unfinished = self.unfinished or LEFT in statuses
            self.statuses += statuses
            self._ended.set()
            return
        for status in statuses:
            self._handle_end(describe_exit(status))

    def _handle_end(self, cause: str) -> None:
        self.failed = True
        self._tap.mark_lost()
        delay = self._policy.record_failure(self._loop.time())
        if delay is None:
            self._give_up(f"{cause}; it has failed {MAX_RESTARTS + 1} times within {WINDOW_S:g} s")
            return
        self._report(InspectorRestarting(cause, delay))
        self._restart_timer = self._loop.call_later(delay, self._restart)

    def _restart(self) -> None:
        self._restart_timer = None
        try:
            self._tap.resume(self._spawner.spawn())
        except OSError as error:
            if self._closed:
                self._give_up(reason(error))
            elif is_shortage(error):  # not the inspector's fault: retry until there are descriptors
                if not self._waits_for_resources:
                    self._report(InspectorRestarting(f"it could not be started: {reason(error)}", SHORTAGE_RETRY_S))
                self._waits_for_resources = True
                self._restart_timer = self._loop.call_later(SHORTAGE_RETRY_S, self._restart)
            else:
                self._handle_end(f"it could not be started: {reason(error)}")
        else:
            self._waits_for_resources = False

    def _give_up(self, cause: str) -> None:
        if not self._tap.gone:
            self._tap.give_up()
            self._spawner.dismiss()
            self._report(InspectorLost(cause))


def describe_exit(status: int) -> str:
    """Return how an inspector has ended, from its exit status (negative: the signal)."""
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    if status == NOT_STARTED:
        return "it could not be started"
    return "it failed" if status == FAILED else f"exit status {status}"
