"""The few requests that the test rig itself sends, as bytes."""

from __future__ import annotations

import socket
import struct

from tests.peers.forwarder import Address

#: ApiVersions v0, correlation id 1, client id "lab".
_API_VERSIONS = bytes.fromhex("0000000d 0012 0000 00000001 0003 6c6162")


def responds(address: Address, timeout: float) -> bool:
    """Return whether a new client gets a response in time."""
    try:
        with socket.create_connection(address, timeout=timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(_API_VERSIONS)
            return connection.recv(8)[4:] == bytes([0, 0, 0, 1])
    except OSError:
        return False


def fetch_request(topic: str, max_bytes: int) -> bytes:
    """Return a Fetch v4 request for up to `max_bytes` of partition 0 of a topic, from its start."""
    name = topic.encode()
    body = struct.pack(">iiiibi", -1, 500, 1, max_bytes, 0, 1) + struct.pack(">h", len(name)) + name
    body += struct.pack(">iiqi", 1, 0, 0, max_bytes)
    frame = struct.pack(">hhih", 1, 4, 2, 3) + b"lab" + body
    return struct.pack(">i", len(frame)) + frame
