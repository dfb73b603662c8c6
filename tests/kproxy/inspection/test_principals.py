"""The principal of a client in trace lines."""

from __future__ import annotations

import base64
import json

import pytest

from kproxy.trace.lines import CloseLine, FindingLine, Line, RequestLine, ResponseLine
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.stories import StoryPlayer, lines_of_story

HANDSHAKE = '> SaslHandshake v%d {"mechanism": "%s"}\n< {"mechanisms": ["%s"]}\n'
METADATA = '> Metadata v9 {"topics": null}\n< {}\n'


def login(mechanism: str, *messages: bytes, lifetime_ms: int = 0) -> str:
    """Return the story of a login in which client and server messages alternate."""
    story = HANDSHAKE % (1, mechanism, mechanism)
    for client, server in zip(messages[::2], messages[1::2], strict=True):
        story += f'> SaslAuthenticate v1 {{"auth_bytes": "{client.hex()}"}}\n'
        story += f'< {{"auth_bytes": "{server.hex()}", "session_lifetime_ms": {lifetime_ms}}}\n'
    return story


def raw_login(mechanism: str, *messages: bytes) -> str:
    story = HANDSHAKE % (0, mechanism, mechanism)
    for number, message in enumerate(messages):
        story += f"{'<' if number % 2 else '>'} hex {len(message):08x}{message.hex()}\n"
    return story


PLAIN = (b"\0alice\0hunter2", b"")
SCRAM = (b"n,,n=b=2Cob,r=ab", b"r=abc,s=QQ==,i=4096", b"c=biws,r=abc,p=QQ==", b"v=QQ==")
KERBEROS = bytes.fromhex("06092a864886f712010202")
GSSAPI = (
    b"\x60\x20" + KERBEROS + b"\x01\x00",
    b"\x60\x20" + KERBEROS + b"\x02\x00",
    b"",
    b"\x05\x04",
    b"\x05\x04",
    b"",
)


def bearer(**claims: object) -> tuple[bytes, bytes]:
    segments = (
        base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=") for fields in ({"alg": "none"}, claims)
    )
    return b"n,,\x01auth=Bearer " + b".".join(segments) + b".\x01\x01", b""


def principals(lines: list[Line]) -> list[str | None]:
    """Return the principal of each frame."""
    return [line.principal for line in lines if isinstance(line, RequestLine | ResponseLine)]


@pytest.mark.parametrize(
    ("story", "principal"),
    [
        (login("PLAIN", *PLAIN), "User:alice"),
        (login("SCRAM-SHA-512", *SCRAM), "User:b,ob"),
        (login("OAUTHBEARER", *bearer(sub="carol", exp=1e9)), "User:carol"),
        (login("OAUTHBEARER", b"n,,\x01auth=Bearer opaque\x01\x01", b""), None),
        (login("GSSAPI", *GSSAPI), None),
        (login("EXTERNAL", b"alice", b""), None),
        (raw_login("PLAIN", *PLAIN), "User:alice"),
        (raw_login("SCRAM-SHA-256", *SCRAM), "User:b,ob"),
        (raw_login("GSSAPI", *GSSAPI[:-1]), None),
    ],
)
def test_lines_have_the_principal_once_the_server_accepts_the_login(story: str, principal: str | None) -> None:
    login_frame_count = len(principals(lines_of_story(story)))
    frame_principals = principals(lines_of_story(story + METADATA))
    is_raw_kerberos = "v0" in story and "GSSAPI" in story
    assert frame_principals[: login_frame_count - 1] == [None] * (login_frame_count - 1)
    assert frame_principals[login_frame_count if is_raw_kerberos else login_frame_count - 1 :] == [principal] * (
        2 if is_raw_kerberos else 3
    )


def test_findings_and_close_line_have_the_principal() -> None:
    lines = lines_of_story(login("PLAIN", *PLAIN) + '> Metadata v9 {"topics": null}\nclose by=server how=fin')
    [close_line] = [line for line in lines if isinstance(line, CloseLine)]
    assert close_line.principal == "User:alice"
    findings = [line for line in lines if isinstance(line, FindingLine)]
    assert findings
    assert {line.principal for line in findings} == {"User:alice"}


@pytest.mark.parametrize(
    ("story", "principal"),
    [
        (login("PLAIN", PLAIN[0], b"").replace('"session_lifetime_ms": 0', '"error_code": 58'), None),
        (login("PLAIN", *PLAIN) + "lose > 40\n", "User:alice"),
        (login("PLAIN", *PLAIN) + "lose < 40\n", "User:alice"),
        ("lose > 40\n" + login("PLAIN", *PLAIN), "User:alice"),
        (login("PLAIN", *PLAIN, lifetime_ms=5000) + "+4s\n" + login("PLAIN", *PLAIN), "User:alice"),
        (login("SCRAM-SHA-256", *SCRAM[:3], b"e=invalid-proof"), None),
        (login("OAUTHBEARER", bearer(sub="carol")[0], b'{"status":"invalid_token"}'), None),
        (login("PLAIN", b"\0" + b"a" * 1000 + b"\0x", b""), None),
    ],
)
def test_principal_survives_losses_and_renewals_but_not_failed_logins(story: str, principal: str | None) -> None:
    assert principals(lines_of_story(story + METADATA))[-2:] == [principal] * 2


def test_client_keeps_its_principal_while_it_reauthenticates() -> None:
    story = login("PLAIN", *PLAIN, lifetime_ms=5000)
    login_frame_count = len(principals(lines_of_story(story)))
    frame_principals = principals(lines_of_story(story + "+4s\n" + login("PLAIN", *PLAIN)))
    assert frame_principals[login_frame_count:] == ["User:alice"] * 4


def test_delegation_token_login_has_the_principal_of_the_known_owner() -> None:
    token_message = b"n,,n=token-1,r=ab,tokenauth=true"
    token_login = login("SCRAM-SHA-256", token_message, *SCRAM[1:])
    assert principals(lines_of_story(token_login))[-1] is None
    player = StoryPlayer()
    player.play(
        '2> CreateDelegationToken v1\n2< {"principal_type": "User", "principal_name": "dora", "token_id": "token-1"}'
    )
    player.play(token_login)
    assert principals(player.lines)[-1] == "User:dora"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sasl-plain-kafka-python-4.3.1", {"User:alice", None}),
        ("sasl-scram256-confluent-4.3.1", {"User:alice", None}),
        ("sasl_ssl-scram512-kafka-python-4.3.1", {"User:alice", None}),
        ("sasl-scram512-wrongpass-kafka-python-4.3.1", {None}),  # nothing follows the login
    ],
)
def test_finds_principals_of_real_clients(name: str, expected: set[str | None]) -> None:
    lines = list(lines_of(DATA / "pcap" / f"{name}.pcap.gz"))
    frames = [line for line in lines if isinstance(line, RequestLine | ResponseLine)]
    assert {line.principal for line in frames} == expected
    login_apis = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
    assert {line.principal for line in frames if line.api not in login_apis} == expected - {None}
