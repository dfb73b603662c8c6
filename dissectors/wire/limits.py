"""Limits of Kafka that every reader of frames shares."""

from __future__ import annotations

from typing import Final

#: The largest valid length prefix: the default of a broker's socket.request.max.bytes. Text and TLS begin with larger
#: ones.
MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
