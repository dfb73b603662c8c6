"""What the tap does with one direction of a connection: which bytes it sends, and which it only counts."""

# Rule 1: `size` and `frames` count what was relayed, whether it was sent or not. Only `receive_data` changes them.
#
# Rule 2: the fate of a frame is decided at its first byte; it may only become worse (sent, then cut).
#
# Rule 3: a gap is sent before the bytes that follow it.

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from dissectors.connections.events import Direction
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.frame_boundaries import FrameBoundaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kproxy.proxy.tap import Tap
    from kproxy.proxy.tapped_connection import TappedConnection


class _Fate(Enum):
    """What the tap does with the frame in progress."""

    SENT = auto()
    SKIPPED = auto()  # only its first bytes are sent
    COUNTED = auto()
    CUT = auto()  # only its beginning was sent


class TappedStream:
    """One direction of a connection.

    Attributes:
        size: The bytes that were relayed.
        frames: The whole frames among them.
        inspected: The bytes and frames that earlier inspectors have inspected, and whether a frame begins after them.
    """

    __slots__ = (
        "_boundaries",
        "_connection",
        "_cut",
        "_dropped",
        "_fate",
        "_gap",
        "_gap_frames",
        "_head",
        "_id",
        "_restarted",
        "_tap",
        "_whole",
        "direction",
        "frames",
        "inspected",
        "size",
    )

    def __init__(self, tap: Tap, connection: TappedConnection, connection_id: int, direction: Direction) -> None:
        self._tap = tap
        self._connection = connection
        self._id = (connection_id, direction)
        self.direction = direction
        self.size = self.frames = 0
        self.inspected = (0, 0, True)
        self._whole = 0  # bytes up to the end of the last whole frame; all of them without framing
        self._restarted = False  # the gap began before this inspector did
        self._boundaries = FrameBoundaries()
        self._fate = _Fate.SENT if connection.announced else _Fate.COUNTED
        self._head = b""
        self._dropped = 0  # bytes of the frame in progress
        # Not sent yet: bytes missing from a frame whose beginning was sent, then the bytes dropped after that frame.
        self._cut = 0
        self._gap = 0
        self._gap_frames = 0

    @property
    def unseen(self) -> tuple[int, int]:
        """The bytes and frames that earlier inspectors have not inspected."""
        return max(self.size - self.inspected[0], 0), max(self.frames - self.inspected[1], 0)

    def resume(self, inspected: int, frames: int) -> None:
        """Start over for a new inspector. Earlier inspectors have inspected this many bytes and frames.

        The new one gets whole frames from the next frame on. Earlier bytes that are in no trace become a gap. If the
        frame in progress was reported from its first bytes, more bytes are inspected than relayed: the gap is below 0
        until the frame ends.
        """
        framed = self._boundaries.framed
        self.inspected = (inspected, frames, framed)
        self._cut, self._head = 0, b""
        self._gap, self._gap_frames = self._whole - inspected, self.frames - frames if framed else 0
        self._dropped = self.size - self._whole
        self._restarted = self.size != inspected
        self._fate = _Fate.COUNTED if self._dropped else _Fate.SENT
        if self._gap > 0:
            self._tap.behind.add(self)

    def receive_data(self, chunk: bytes, at: int) -> None:
        """Send, drop or count the next bytes, which were relayed at `at`."""
        tap = self._tap
        if tap.gone:
            tap.unseen_bytes += len(chunk)
            return
        if self._connection.inspector != tap.inspector:
            self._connection.catch_up(at)
        at_start = self._boundaries.at_boundary
        ends = self._boundaries.ends(chunk)
        if ends:
            self._whole = self.size + ends[-1]
            self.frames += len(ends)
        self.size += len(chunk)
        if not self._boundaries.framed:
            self._whole = self.size
        if tap.lost:
            tap.unseen_bytes += len(chunk)
        elif self._fate is _Fate.SENT and not tap.full:
            self._send(chunk, at)
        else:
            self._send_some(chunk, ends, at_start, at)

    def send_replacement(self, frame: bytes, at: int) -> None:
        """Send the frame that the relay sent instead of the next one, unless there is no room for it."""
        self._connection.catch_up(at)
        if self._connection.announced and not self._tap.full and not self._tap.lost:
            self._tap.put(tap_protocol.encode_replaced_head(*self._id, at, len(frame)), frame)

    def end(self, how: str, at: int) -> None:
        """Send that the direction has ended, see `tap_messages.End`."""
        self._connection.catch_up(at)
        if self._tap.lost:
            return
        self.finish(at)
        if self._connection.announced:
            self._tap.put(tap_protocol.encode_end(*self._id, at, how))

    def finish(self, at: int) -> None:
        """Send the gaps at the end of the direction, including bytes dropped from an incomplete frame."""
        self._break_off_frame()
        self.send_gaps(at)

    def send_gaps(self, at: int) -> None:
        """Send the gaps, if the connection is announced or there is room to announce it."""
        if not (self._cut or self._gap > 0) or (not self._connection.announced and self._tap.packed):
            return
        self._connection.announce(at)
        if self._cut:
            self._tap.put(tap_protocol.encode_gap(tap_messages.TapGap(*self._id, at, self._cut, 0)))
        if self._gap:
            gap = tap_messages.TapGap(*self._id, at, self._gap, self._gap_frames, self._restarted)
            self._tap.put(tap_protocol.encode_gap(gap))
        self._cut = self._gap = self._gap_frames = 0
        self._restarted = self._restarted and self._dropped > 0
        self._tap.behind.discard(self)

    def _send(self, chunk: bytes, at: int) -> None:
        number, direction = self._id  # cheaper than *self._id, for each chunk
        size = len(chunk)
        head = tap_protocol.encode_data_head(number, direction, at, size)
        if size < 4096:
            self._tap.put(head + chunk)
        else:
            self._tap.put(head, chunk)

    def _send_some(self, chunk: bytes, ends: Sequence[int], at_start: bool, at: int) -> None:
        """Send some frames of the chunk and drop the others; frames end at `ends`."""
        start, send_start = 0, -1  # `send_start`: where the bytes to send begin, or -1
        for index, end in enumerate(ends if ends and ends[-1] == len(chunk) else (*ends, len(chunk))):
            if at_start:
                self._fate = self._choose_fate(at)
            elif self._fate is _Fate.SENT and self._tap.packed:
                self._fate = _Fate.CUT
            is_whole = index < len(ends)
            if self._fate is _Fate.SENT:
                send_start = start if send_start < 0 else send_start
            else:
                if send_start >= 0:
                    self._send(chunk[send_start:start], at)
                    send_start = -1
                self._drop(chunk, start, end)
                if is_whole:
                    self._finish_dropped_frame(at)
            start, at_start = end, is_whole
        if send_start >= 0:
            self._send(chunk[send_start:], at)
        if not self._boundaries.framed:
            self._break_off_frame()

    def _choose_fate(self, at: int) -> _Fate:
        """Return the fate of a frame that begins; first send the gaps if the frame is sent."""
        if not self._tap.full:
            self._connection.announce(at)
            self.send_gaps(at)
            return _Fate.SENT
        self._tap.fall_behind()
        self._tap.look_for_room()
        return _Fate.COUNTED if self._tap.packed or not self._boundaries.framed else _Fate.SKIPPED

    def _drop(self, chunk: bytes, start: int, end: int) -> None:
        self._dropped += end - start
        if self._fate is _Fate.SKIPPED and len(self._head) < tap_protocol.HEAD_BYTES:
            self._head += chunk[start : min(end, start + tap_protocol.HEAD_BYTES - len(self._head))]

    def _finish_dropped_frame(self, at: int) -> None:
        """Account for the frame in progress, which was dropped and has ended."""
        self._tap.dropped_frames += 1
        if self._fate is _Fate.SKIPPED and not self._tap.packed:
            self._connection.announce(at)
            self.send_gaps(at)
            self._tap.put(tap_protocol.encode_skipped(*self._id, at, self._dropped - 4, self._head))
        elif self._fate is _Fate.CUT:
            self._cut += self._dropped
            self._tap.behind.add(self)
        else:
            self._gap += self._dropped
            self._gap_frames += 1
            self._tap.behind.add(self)
        self._tap.dropped_bytes += self._dropped
        self._dropped, self._head = 0, b""
        if not self._tap.packed:  # the frame began while the tap was packed
            self.send_gaps(at)

    def _break_off_frame(self) -> None:
        """Add the dropped bytes of the frame in progress to the gap, without counting a frame."""
        if self._dropped:
            self._gap += self._dropped
            self._tap.behind.add(self)
            self._tap.dropped_bytes += self._dropped
            self._dropped, self._head = 0, b""
