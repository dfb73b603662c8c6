"""The web application controls access to its server."""

import socket

import pytest

from kproxy.web.access import AccessControl, is_same_origin


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8092", "localhost:8092", "[::1]:8092", "localhost", "LOCALHOST:1", "10.1.2.3:8092", "desk.lan:9000",
     socket.gethostname()],
)  # fmt: skip
def test_addresses_and_own_names_are_accepted_on_any_port(host: str) -> None:
    assert AccessControl("desk.lan", 8092).is_own_host(host)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8092", "127.0.0.1.evil.example", "localhost.evil.example", "[::1", "[x]:1"],
)
def test_other_host_names_are_rejected(host: str) -> None:
    assert not AccessControl(None, 8092).is_own_host(host)


def test_each_server_has_a_different_token() -> None:
    first, second = AccessControl(None, 8092), AccessControl(None, 8093)
    assert len(first.token) >= 43
    assert first.token != second.token
    assert first.cookie != second.cookie
    assert first.is_key(first.token)
    assert not any(
        first.is_key(token) for token in (second.token, "", None, first.token[:-1], first.token + "x", "\udcff", "é")
    )


def test_token_is_accepted_in_the_url_or_in_its_cookie() -> None:
    access = AccessControl(None, 8092)
    assert access.has_token({"token": access.token}, {})
    assert access.has_token({}, {"kproxy-8092": access.token})
    assert not access.has_token({}, {"kproxy-8093": access.token, "token": access.token})
    assert not access.has_token({"kproxy-8092": access.token}, {})


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8092", True),
        ("http://localhost", False),
        ("http://127.0.0.1:8092", False),
        ("http://evil.example", False),
        ("https://localhost:8092", False),
        ("http://[", False),
        ("null", False),
        (None, False),
    ],
)
def test_only_the_origin_of_this_server_is_accepted(origin: str | None, expected: bool) -> None:
    assert is_same_origin(origin, "localhost:8092") == expected
