"""Requests that have been waiting for their response longer than expected."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from dissectors.connections.events import Direction
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.waits import Wait, explain_wait
from kproxy.inspection.frame_lines import FrameLines
from kproxy.inspection.inspected_connection import InspectedConnection
from kproxy.trace.lines import RequestLine

#: A waiting request is reported when its response is this late (s), and then once an hour.
LATE_STEPS: Final = (5, 15, 60, 300, 900, 3600)


class WaitingResponse(NamedTuple):
    """A request without a response: its waiting time (s), how many others wait on its connection, and why it waits."""

    request: RequestLine
    seconds: int
    others: int
    wait: Wait


def late_responses(
    connections: Iterable[InspectedConnection], frame_lines: FrameLines, *, at: int, repeat_reported: bool = False
) -> Iterator[WaitingResponse]:
    """Yield the oldest unanswered request of each connection whose response is late by another step at `at` (ns).

    With `repeat_reported`, yield only the requests whose step was already reported.
    """
    for state in connections:
        oldest = state.connection_state.state(InFlight).oldest(state.connection_state)
        if oldest is None:
            continue
        request, due = oldest
        step = _steps_passed((at - due) // SECOND)
        offset, reported = state.reported
        steps_reported = reported if offset == request.offset else 0
        if steps_reported if repeat_reported else step > steps_reported:
            if not repeat_reported:
                state.reported = request.offset, step
            line = frame_lines.repeat_request(request)
            wait = explain_wait(request, at, state.connection_state, state.connection.partial_frame(Direction.RESPONSE))
            yield WaitingResponse(line, (at - request.at) // SECOND, state.connection.in_flight - 1, wait)


def _steps_passed(seconds: int) -> int:
    """Return the number of steps that a response has passed if it is this late."""
    return bisect_right(LATE_STEPS, seconds) + max(0, seconds // LATE_STEPS[-1] - 1)
