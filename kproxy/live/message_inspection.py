"""Turns the tap's messages into trace lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dissectors.connections.events import INSPECTOR_WAS_BEHIND, INSPECTOR_WAS_RESTARTED, TlsFailed
from dissectors.connections.tls_failures import TlsReason
from kproxy.inspection.inspected_connection import Progress
from kproxy.inspection.inspector import Inspector, Received
from kproxy.live.progress import ProgressLog
from kproxy.proxy import tap_messages
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.proxy.tls.remedies import remedy
from kproxy.trace.lines import FORMAT, GapLine, Line
from kproxy.trace.timestamps import timestamp

#: Messages that account for bytes of a connection.
_MOVING: Final = (tap_messages.TapData, tap_messages.TapSkipped, tap_messages.TapGap)


class MessageInspection:
    """Passes messages to the inspector.

    Args:
        inspector: Makes the lines.
        progress: Records how far connections are inspected.
        sample: The share of connections that is inspected.
        activity: Where to record the current message and frame for the relay.

    Attributes:
        missed_count: The number of connections that were opened and closed without being inspected.
        unsampled_count: The number of connections that were not chosen to be inspected; None until the last message.
    """

    def __init__(
        self, inspector: Inspector, progress: ProgressLog, *, sample: float | None, activity: InspectorActivity
    ) -> None:
        self.missed_count = 0
        self.unsampled_count: int | None = None
        self._inspector = inspector
        self._progress = progress
        self._sample = sample
        self._activity = activity
        inspector.on_frame(activity.begin_frame)

    def lines(self, message: tap_messages.Message) -> list[Line]:
        """Return the lines that a message completes, except those that `Inspector.flush` returns later."""
        try:
            return self._lines(message)
        except Exception as error:  # noqa: BLE001  # a bug that one message triggers: the others are still inspected
            return self._inspector.fail("inspecting a message of the relay", error, at=message.at)

    def lines_of_each(self, messages: Iterable[tap_messages.TapData]) -> list[list[Line]]:
        """Return the lines of each of several data messages. All frames are decoded before the first one is judged."""
        inspector = self._inspector
        lines: list[list[Line]] = []
        decoded: list[Received] = []
        for message in messages:
            if inspector.is_due(message.at):
                _judge(inspector, decoded, lines)
            lines.append(self.lines(message))
            decoded.append(inspector.take_received())
        _judge(inspector, decoded, lines)
        return lines

    def add_progress(self, message: tap_messages.Message) -> None:
        """Record the progress of a message whose lines were handled."""
        if isinstance(message, _MOVING):
            self._progress.record_progress(message.connection_id)
        elif isinstance(message, tap_messages.Close):
            self._progress.record_closed(message.connection_id)

    def _lines(self, message: tap_messages.Message) -> list[Line]:
        inspector = self._inspector
        if isinstance(message, tap_messages.TapData):
            self._activity.begin_message(message.connection_id)
            return inspector.receive(message.connection_id, message.direction, message.payload, at=message.at)
        if isinstance(message, tap_messages.Open):
            self._progress.record_opened(message.connection_id, message.slot)
            resumed = None
            if message.resumed is not None:
                resumed = Progress(*message.resumed[0]), Progress(*message.resumed[1])
            return inspector.open(
                message.connection_id, message.client, message.server, at=message.at, listener=message.listener,
                tls=message.tls, plaintext_upstream=message.plaintext_upstream, resumed=resumed, sample=self._sample,
            )  # fmt: skip
        if isinstance(message, tap_messages.TapSkipped):
            return inspector.skip(
                message.connection_id,
                message.direction,
                message.head,
                message.size,
                at=message.at,
                reason=INSPECTOR_WAS_BEHIND,
            )
        if isinstance(message, tap_messages.TapGap):
            # After a restart, no frames means that no boundaries are known.
            frames = message.frames or None if message.restarted else message.frames
            return inspector.lose(
                message.connection_id, message.direction, message.size, at=message.at,
                reason=INSPECTOR_WAS_RESTARTED if message.restarted else INSPECTOR_WAS_BEHIND, frames=frames,
            )  # fmt: skip
        if isinstance(message, tap_messages.Close):
            return inspector.close(message.connection_id, at=message.at, by=message.by, how=message.how)
        if isinstance(message, tap_messages.TapTlsFailed):
            _, at, side, by, reason, name, detail = message
            tls_reason = TlsReason(reason)
            failure = TlsFailed(at, side, by, tls_reason, name, detail, remedy(side, by, tls_reason))
            return inspector.tls_failed(message.connection_id, failure)
        if isinstance(message, tap_messages.TapReplaced):
            inspector.replace_next(message.connection_id, message.direction, message.frame)
        if isinstance(message, tap_messages.Behind):
            inspector.is_behind = message.is_behind
            return inspector.tick(at=message.at)
        if isinstance(message, tap_messages.Missed):
            self.missed_count += message.connections
            self._progress.record_missed(message.connections, message.size, message.frames)
            reason = INSPECTOR_WAS_RESTARTED if message.restarted else INSPECTOR_WAS_BEHIND
            count_text = (
                f"{message.connections} connection{'' if message.connections == 1 else 's'} came and went unseen"
            )
            gap = run_gap(message.at, f"{reason}: {count_text}", message.size, message.frames)
            return inspector.lose_connections(gap, at=message.at)
        if isinstance(message, tap_messages.Bye):
            self.unsampled_count = message.unsampled_count
        return []


def _judge(inspector: Inspector, decoded: list[Received], lines: list[list[Line]]) -> None:
    """Judge the decoded frames of the latest messages, and append the resulting lines to those of each message."""
    for received, message_lines in zip(decoded, lines[len(lines) - len(decoded) :], strict=True):
        message_lines += inspector.judge(received)
    decoded.clear()


def run_gap(at: int, reason: str, size: int = 0, frames: int = 0) -> GapLine:
    """Return a gap line for the whole run rather than one connection; `at` in ns since the epoch."""
    return GapLine(
        v=FORMAT, ts=timestamp(at), connection_id="", direction="both", bytes=size, frames=frames, reason=reason
    )
