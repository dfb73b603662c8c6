"""Short trace lines."""

from kproxy.trace.encoding import encode_line
from kproxy.trace.lines import FORMAT, CloseLine, OpenLine

CLIENT, SERVER = "10.0.0.1:5000", "10.0.0.2:9092"


def line(second: float, connection: str = "web-1-1") -> bytes:
    """Return the line of a connection that opens `second` seconds after midnight."""
    return encode_line(
        OpenLine(v=FORMAT, ts=_ts(second), connection_id=connection, client=CLIENT, server=SERVER),
    )


def close(second: float, connection: str = "web-1-1") -> bytes:
    """Return the line of a connection that closes `second` seconds after midnight."""
    return encode_line(CloseLine(v=FORMAT, ts=_ts(second), connection_id=connection, client=CLIENT, server=SERVER))


def _ts(second: float) -> str:
    seconds, micros = divmod(round(second * 1e6), 1_000_000)
    return f"2026-11-21T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micros:06d}Z"
