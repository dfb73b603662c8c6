"""Kafka's limits, shared by every reader of frames."""

from __future__ import annotations

from typing import Final

#: The largest valid length prefix: the default of a broker's socket.request.max.bytes. The first bytes of text
#: and of TLS, read as a length, are larger.
MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
