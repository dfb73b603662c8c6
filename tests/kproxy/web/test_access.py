"""Who may come in."""

import socket

import pytest

from kproxy.web.access import AccessControl, is_same_origin


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8092", "localhost:8092", "[::1]:8092", "localhost", "LOCALHOST:1", "10.1.2.3:8092", "desk.lan:9000",
     socket.gethostname()],
)  # fmt: skip
def test_a_server_goes_by_numbers_and_its_own_names_on_any_port(host: str) -> None:
    assert AccessControl("desk.lan", 8092).is_own_host(host)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8092", "127.0.0.1.evil.example", "localhost.evil.example", "[::1", "[x]:1"],
)
def test_it_goes_by_no_name_of_somebody_else(host: str) -> None:
    assert not AccessControl(None, 8092).is_own_host(host)


def test_every_server_has_a_key_of_its_own() -> None:
    one, two = AccessControl(None, 8092), AccessControl(None, 8093)
    assert len(one.token) >= 43
    assert one.token != two.token
    assert one.cookie != two.cookie
    assert one.is_key(one.token)
    assert not any(one.is_key(given) for given in (two.token, "", None, one.token[:-1], one.token + "x", "\udcff", "é"))


def test_the_key_is_in_the_url_or_in_its_own_cookie() -> None:
    door = AccessControl(None, 8092)
    assert door.is_open_to({"token": door.token}, {})
    assert door.is_open_to({}, {"kproxy-8092": door.token})
    assert not door.is_open_to({}, {"kproxy-8093": door.token, "token": door.token})
    assert not door.is_open_to({"kproxy-8092": door.token}, {})


@pytest.mark.parametrize(
    ("origin", "same"),
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
def test_a_session_begins_on_a_page_of_this_server(origin: str | None, same: bool) -> None:
    assert is_same_origin(origin, "localhost:8092") == same
