"""Turns capture files into TCP byte streams and trace lines; decrypts TLS with logged keys."""

from kproxy.capture.flows import (
    BytesCaptured,
    BytesLost,
    Event,
    Flow,
    FlowEnded,
    FlowOpened,
    NameNotFound,
    SegmentDiffers,
    Unacknowledged,
)
from kproxy.capture.packet import CaptureError, Packet
from kproxy.capture.source import Capture, open_capture
from kproxy.capture.tcp import Reassembler

__all__ = [
    "BytesCaptured",
    "BytesLost",
    "Capture",
    "CaptureError",
    "Event",
    "Flow",
    "FlowEnded",
    "FlowOpened",
    "NameNotFound",
    "Packet",
    "Reassembler",
    "SegmentDiffers",
    "Unacknowledged",
    "open_capture",
]
