"""Detect other protocols by the first bytes of a stream."""

from __future__ import annotations

from typing import NamedTuple


class OtherProtocol(NamedTuple):
    """The protocol of a stream, and what to do about it."""

    protocol: str
    hint: str


_TLS = OtherProtocol(
    "TLS",
    "one side speaks TLS, the other does not: set security.protocol=SSL or SASL_SSL on the client, or use the "
    "plaintext port of the broker",
)
_HTTP = OtherProtocol("HTTP", "an HTTP client or health check is pointed at a Kafka port; give it an HTTP port")
_MQTT = OtherProtocol("MQTT", "an MQTT client; check the port")
_HEALTH_CHECK = OtherProtocol("ZooKeeper", "a ZooKeeper health check; check the port")
_SESSION = OtherProtocol("ZooKeeper", "a ZooKeeper session; clients since Kafka 3 are given brokers, not ZooKeeper")

#: Protocols recognised by four bytes, which would be too large as a length prefix; more bytes may never arrive.
_BY_FOUR_BYTES = {
    **dict.fromkeys(
        (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"HTTP", b"PRI "), _HTTP
    ),
    b"SSH-": OtherProtocol("SSH", "an SSH client or server; check the port"),
    b"AMQP": OtherProtocol("AMQP", "an AMQP client or broker (RabbitMQ); check the port"),
    b"*1\r\n": OtherProtocol("Redis", "a Redis client; check the port"),
    **dict.fromkeys((b"ruok", b"stat", b"mntr"), _HEALTH_CHECK),
    **dict.fromkeys((b"EHLO", b"HELO"), OtherProtocol("SMTP", "a mail client; check the port")),
}
_POSTGRESQL_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"

#: The most bytes that `detect_protocol` needs.
START_BYTES = 32

PROXY_V1 = b"PROXY "
PROXY_V2 = b"\r\n\r\n\x00\r\nQUIT\n"
_PROXY_V1_MAX = 107
#: The number of bytes from which `proxy_header` can tell the size of any header.
PROXY_BYTES = _PROXY_V1_MAX


def detect_protocol(start: bytes) -> OtherProtocol | None:
    """Detect the protocol of a stream by its first bytes; None if it may be Kafka.

    A TLS record is a handshake (22) or alert (21) of version 3.0 to 3.4. An MQTT CONNECT has its length, a varint,
    before the length of the protocol name. A ZooKeeper session opens with 44 or 45 bytes: protocol version 0, a timeout
    of less than 65 s at byte 16, and 16, the length of the password, at byte 28.
    """
    if len(start) >= 3 and start[0] in (0x15, 0x16) and start[1] == 3 and start[2] <= 4:
        return _TLS
    if start[:1] == b"\x10" and start[2:4] == b"\x00\x04":
        return _MQTT
    if start[:4] in (b"\x00\x00\x00\x2c", b"\x00\x00\x00\x2d"):
        is_session_request = start[4:8] == bytes(4) and start[16:18] == bytes(2) and start[28:32] == b"\x00\x00\x00\x10"
        return _SESSION if is_session_request else None
    if start.startswith(_POSTGRESQL_SSL_REQUEST):
        return OtherProtocol("PostgreSQL", "a PostgreSQL client asking for SSL; check the port")
    return _BY_FOUR_BYTES.get(start[:4])


class ProxyHeader(NamedTuple):
    """A PROXY protocol header. While it is incomplete, `size` is larger than the bytes received."""

    version: int
    size: int


def proxy_header(start: bytes) -> ProxyHeader | None:
    """Return the PROXY protocol header at the start of a stream, or None if there is none.

    Source: the PROXY protocol, versions 1 and 2 (haproxy.org, doc/proxy-protocol.txt).
    """
    if start.startswith(PROXY_V2):
        return ProxyHeader(2, 16 + int.from_bytes(start[14:16], "big") if len(start) >= 16 else 16)
    if PROXY_V2.startswith(start):
        return ProxyHeader(2, 16)
    if start.startswith(PROXY_V1) or PROXY_V1.startswith(start):
        end = start.find(b"\r\n", 0, _PROXY_V1_MAX)
        if end >= 0:
            return ProxyHeader(1, end + 2)
        if len(start) < _PROXY_V1_MAX:
            return ProxyHeader(1, len(start) + 1)
    return None
