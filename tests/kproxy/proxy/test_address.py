"""The arguments of --listen and --upstream, and the errors for invalid ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kproxy.proxy.address import Address, TcpAddress, UnixAddress, parse_listen, parse_upstream


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9092", TcpAddress(None, 9092)),
        (":9092", TcpAddress(None, 9092)),
        ("0.0.0.0:9092", TcpAddress("0.0.0.0", 9092)),
        ("kafka-1.example.org:9092", TcpAddress("kafka-1.example.org", 9092)),
        ("[::1]:9092", TcpAddress("::1", 9092)),
        ("[fe80::1%eth0]:9092", TcpAddress("fe80::1%eth0", 9092)),
        ("unix:/run/kproxy.sock", UnixAddress("/run/kproxy.sock")),
    ],
)
def test_listen_and_upstream_addresses_have_the_same_syntax(text: str, address: TcpAddress | UnixAddress) -> None:
    assert parse_listen(text) == parse_upstream(text) == address


def test_port_0_is_valid_for_listening_only() -> None:
    assert parse_listen("0") == TcpAddress(None, 0)
    with pytest.raises(ValueError, match="use 1 to 65535"):
        parse_upstream("localhost:0")


@pytest.mark.parametrize("text", ["127.0.0.1:9092", "[::1]:9092", "kafka:9092", "unix:/run/kproxy.sock"])
def test_address_prints_as_it_is_written(text: str) -> None:
    assert str(parse_listen(text)) == text


def test_address_without_host_prints_as_localhost() -> None:
    assert str(parse_listen(":9092")) == "localhost:9092"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "has no port: use HOST:9092"),
        ("kafka", "use kafka:9092"),
        ("::1", r"use the form \[::1\]:9092"),
        ("fe80::1:2:abc", r"use \[fe80::1:2:abc\]:9092"),
        ("::1:9092", "without brackets"),
        ("[::1]", r"use \[::1\]:9092"),
        ("[::1]9092", "invalid port"),
        ("[kafka]:9092", r"invalid IPv6 address \[kafka\]"),
        ("[]:9092", "invalid IPv6 address"),
        ("kafka:port", "invalid port 'port'"),
        ("kafka:", "invalid port ''"),
        ("kafka:99999", "65535"),
        ("kafka:-1", "65535"),
        ("kafka:٣", "invalid port"),
        ("*:9092", r"0\.0\.0\.0:9092"),
        ("my kafka:9092", "invalid host name 'my kafka'"),
        ("a:9092,b:9092", "repeat --listen and --upstream"),
        ("PLAINTEXT://kafka:9092", "use kafka:9092"),
        ("unix:", "unix:/path/to/socket"),
        ("unix:/" + 107 * "x", "limited to 107 bytes"),
    ],
)
def test_error_suggests_a_valid_address(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice) as raised:
        parse_upstream(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["alice:s3cret@host:9092", "host:9092?key=s3cret", "http://u:s3cret@host:1", "h:1#s3cret"]
)
@pytest.mark.parametrize("parse", [parse_listen, parse_upstream])
def test_rejects_credentials_without_repeating_them(parse: Callable[[str], Address], text: str) -> None:
    with pytest.raises(ValueError, match="without a user") as refused:
        parse(text)
    assert "s3cret" not in str(refused.value)
