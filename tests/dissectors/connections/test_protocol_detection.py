import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.connections.protocol_detection import PROXY_V2, START_BYTES, ProxyHeader, detect_protocol, proxy_header
from dissectors.hexdump import unhex

ZOOKEEPER_SESSION = unhex("""
    00 00 00 2d              # length 45
    00 00 00 00              # protocol version
    00 00 00 00 00 00 00 00  # last zxid seen
    00 00 75 30              # timeout: 30 s
    00 00 00 00 00 00 00 00  # session id
    00 00 00 10              # password of 16 bytes
""") + bytes(17)  # fmt: skip
POSTGRESQL_SSL_REQUEST = unhex("00 00 00 08  04 d2 16 2f")

STREAMS = [
    ("TLS", unhex("16 03 01 02 00 01 00 01 fc 03 03")),
    ("TLS", unhex("15 03 03 00 02 02 28")),
    ("HTTP", b"GET / HTTP/1.1\r\n"),
    ("HTTP", b"POST /topics HTTP/1.1\r\n"),
    ("HTTP", b"PUT / HTTP/1.1\r\n"),
    ("HTTP", b"HEAD / HTTP/1.1\r\n"),
    ("HTTP", b"DELETE / HTTP/1.1\r\n"),
    ("HTTP", b"OPTIONS * HTTP/1.1\r\n"),
    ("HTTP", b"PATCH / HTTP/1.1\r\n"),
    ("HTTP", b"CONNECT broker:9092 HTTP/1.1\r\n"),
    ("HTTP", b"HTTP/1.1 400 Bad Request\r\n"),
    ("HTTP", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n"),
    ("AMQP", b"AMQP\x00\x00\x09\x01"),
    ("MQTT", b"\x10\x0f\x00\x04MQTT\x04\x02\x00\x3c\x00\x03abc"),
    ("MQTT", b"\x10\x21\x00\x04MQTT\x05\x02\x00\x3c"),
    ("Redis", b"*1\r\n$4\r\nPING\r\n"),
    ("SMTP", b"EHLO client.example\r\n"),
    ("SMTP", b"HELO client.example\r\n"),
    ("ZooKeeper", b"ruok"),
    ("ZooKeeper", b"stat\n"),
    ("ZooKeeper", b"mntr\n"),
    ("ZooKeeper", ZOOKEEPER_SESSION),
    ("ZooKeeper", b"\x00\x00\x00\x2c" + ZOOKEEPER_SESSION[4:-1]),
    ("PostgreSQL", POSTGRESQL_SSL_REQUEST),
]


@pytest.mark.parametrize(("protocol", "start"), STREAMS)
def test_protocol_is_recognised_by_its_first_bytes(protocol: str, start: bytes) -> None:
    guess = detect_protocol(start)
    assert guess is not None
    assert guess.protocol == protocol
    assert guess.hint


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GE",
        unhex("16 03"),
        unhex("16 03 05 00"),
        unhex("17 03 03 00"),
        unhex("00 00 00 0a 00 12 00 00 00 00 00 2a ff ff"),
        pytest.param(unhex("0000002d 0000 0000 00000000 0000") + bytes(35), id="Produce v0 of 45 bytes"),
        pytest.param(ZOOKEEPER_SESSION[:31], id="session that is cut off"),
        pytest.param(unhex("00 00 00 08 04 d2 16"), id="seven bytes of PostgreSQL"),
    ],
)
def test_possible_kafka_bytes_are_not_taken_for_another_protocol(start: bytes) -> None:
    assert detect_protocol(start) is None


@given(st.sampled_from([start for _, start in STREAMS]) | st.binary(max_size=48), st.integers(0, 48))
def test_more_bytes_never_change_the_recognised_protocol(start: bytes, cut: int) -> None:
    if (guess := detect_protocol(start[:cut])) is not None:
        assert detect_protocol(start) == guess
    assert detect_protocol(start[:START_BYTES]) == detect_protocol(start)


@pytest.mark.parametrize(
    ("start", "header"),
    [
        pytest.param(b"PROXY TCP4 10.0.0.1 10.0.0.2 5000 9092\r\n\0\0\0\x0a", ProxyHeader(1, 40), id="v1"),
        pytest.param(b"PROXY UNKNOWN\r\n", ProxyHeader(1, 15), id="v1 of nobody"),
        pytest.param(b"PROXY TCP4 10.0", ProxyHeader(1, 16), id="v1 not whole"),
        pytest.param(b"PRO", ProxyHeader(1, 4), id="three bytes of v1"),
        pytest.param(PROXY_V2 + unhex("21 11 00 0c") + bytes(12), ProxyHeader(2, 28), id="v2"),
        pytest.param(PROXY_V2 + unhex("21 11 01 00"), ProxyHeader(2, 272), id="v2 with its addresses to come"),
        pytest.param(PROXY_V2 + b"\x21", ProxyHeader(2, 16), id="v2 not whole"),
        pytest.param(PROXY_V2[:5], ProxyHeader(2, 16), id="five bytes of v2"),
    ],
)
def test_proxy_header_is_recognised_with_its_size(start: bytes, header: ProxyHeader) -> None:
    assert proxy_header(start) == header


@pytest.mark.parametrize("start", [b"PROXIES", b"PROXY " + b"x" * 200 + b"\r\n", b"\r\n\r\n\0\r\nQUIX", b"GET "])
def test_bytes_that_only_begin_like_a_proxy_header_are_rejected(start: bytes) -> None:
    assert proxy_header(start) is None
