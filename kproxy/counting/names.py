"""Names, truncated to a bound: strings of the protocol may have 32,767 bytes, Kafka's names at most 249."""

from __future__ import annotations

from dissectors.connections.addresses import host_of
from kproxy.trace.lines import RequestLine, ResponseLine

#: Longer names are truncated to this many characters.
MAX_NAME_LENGTH = 250

#: A client across its connections: host and client id.
ClientKey = tuple[str, str]


def client_key(line: RequestLine | ResponseLine) -> ClientKey:
    """The client of a frame: host without port, truncated client id."""
    return host_of(line.client), (line.client_id or "")[:MAX_NAME_LENGTH]
