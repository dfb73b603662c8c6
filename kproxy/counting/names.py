"""Names, cut where they are longer than any of Kafka's: a string of the protocol can have 32,767 bytes."""

from __future__ import annotations

from dissectors.connections.addresses import host_of
from kproxy.trace.lines import RequestLine, ResponseLine

#: Characters of a name that count; Kafka allows 249 for a topic.
LONGEST = 250

#: A client over all of its connections: host and client id.
Who = tuple[str, str]


def who_of(line: RequestLine | ResponseLine) -> Who:
    """The client of a frame."""
    return host_of(line.client), (line.client_id or "")[:LONGEST]
