"""Restarts the inspector when it has failed or was killed, and gives up if it fails repeatedly."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from kproxy.live.inspector_process import FAILED
from kproxy.live.restart_policy import MOST_RESTARTS, WINDOW_S, RestartPolicy
from kproxy.live.spawner import NOT_STARTED, Spawner
from kproxy.proxy.events import InspectorLost, InspectorRestarting, Report
from kproxy.proxy.shortage import is_shortage
from kproxy.proxy.sockets import reason
from kproxy.proxy.tap import Tap

#: Without file descriptors, an inspector cannot be started: seconds between attempts.
SHORTAGE_RETRY_S: Final = 1.0

SPAWNER_LOST: Final = "the process that starts inspectors was killed"


class Supervisor:
    """Connects the tap to a new inspector when the last one has ended. Runs in the relay's loop and never waits.

    Args:
        spawner: Has started the first inspector.
        tap: Sends to that inspector.
        report: Takes events that the user should know about.
    """

    def __init__(self, spawner: Spawner, tap: Tap, report: Report) -> None:
        self.failed = False  # whether an inspector has ended before the relay
        self._spawner = spawner
        self._tap = tap
        self._report = report
        self._closed = False
        self._waits_for_resources = False  # as the user knows
        self._loop = asyncio.get_running_loop()
        self._policy = RestartPolicy()
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(spawner.channel, self._on_readable)

    def close(self, *, restart: bool = False) -> None:
        """The relay is about to end: start no more inspectors.

        Args:
            restart: If a restart is scheduled, do it now, so that the trace reports what is missing.
        """
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._spawner.channel)
        if self._timer is not None:
            self._timer.cancel()
            if restart:
                self._restart()
        self._tap.expect_no_other()

    def _on_readable(self) -> None:
        statuses = self._spawner.statuses()
        if statuses is None:
            self._loop.remove_reader(self._spawner.channel)
            self._tap.expect_no_other()
            if self._tap.lost:
                self._give_up(SPAWNER_LOST)
            return
        for status in statuses:
            self._on_ended(ending(status))

    def _on_ended(self, why: str) -> None:
        self.failed = True
        self._tap.lose()
        delay = self._policy.delay(self._loop.time())
        if delay is None:
            self._give_up(f"{why}; it has failed {MOST_RESTARTS + 1} times within {WINDOW_S:g} s")
            return
        self._report(InspectorRestarting(why, delay))
        self._timer = self._loop.call_later(delay, self._restart)

    def _restart(self) -> None:
        self._timer = None
        try:
            self._tap.resume(self._spawner.spawn())
        except OSError as error:
            if self._closed:
                self._give_up(reason(error))
            elif is_shortage(error):  # not the inspector's fault: try until there are descriptors
                if not self._waits_for_resources:
                    self._report(InspectorRestarting(f"it could not be started: {reason(error)}", SHORTAGE_RETRY_S))
                self._waits_for_resources = True
                self._timer = self._loop.call_later(SHORTAGE_RETRY_S, self._restart)
            else:
                self._on_ended(f"it could not be started: {reason(error)}")
        else:
            self._waits_for_resources = False

    def _give_up(self, why: str) -> None:
        if not self._tap.gone:
            self._tap.give_up()
            self._spawner.dismiss()
            self._report(InspectorLost(why))


def ending(status: int) -> str:
    """How an inspector has ended, from its exit status (below 0: the signal)."""
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    if status == NOT_STARTED:
        return "it could not be started"
    return "it failed" if status == FAILED else f"exit status {status}"
