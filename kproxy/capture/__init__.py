"""From capture files to TCP byte streams, and through TLS where its keys were logged."""

from kproxy.capture.flows import Data, Ended, Event, Flow, Lost, Opened
from kproxy.capture.packet import CaptureError, Packet
from kproxy.capture.source import Capture, open_capture
from kproxy.capture.tcp import Reassembler

__all__ = [
    "Capture",
    "CaptureError",
    "Data",
    "Ended",
    "Event",
    "Flow",
    "Lost",
    "Opened",
    "Packet",
    "Reassembler",
    "open_capture",
]
