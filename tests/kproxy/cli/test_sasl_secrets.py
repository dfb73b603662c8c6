"""No output shows the secrets of any SASL mechanism, whether logins succeed, fail or are malformed."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.broker.threaded import BrokerThread
from kproxy.browse.fields.detail import build_frame_detail
from kproxy.inspection.explain import Explanation, explain
from kproxy.trace.encoding import append_line, parse_line
from kproxy.trace.lines import Detail, RequestLine, ResponseLine
from tests.kproxy.browse.sessions import session_of
from tests.kproxy.capture_results import lines_of
from tests.kproxy.captures.recorder import record_story
from tests.kproxy.cli.conftest import Run
from tests.kproxy.frames import request, response
from tests.kproxy.html.pages import ParsedPage
from tests.kproxy.leaks import SecretSearch
from tests.kproxy.tui.screens import press, running
from tests.kproxy.tui.screens import text as screen_text


def _random_bytes(name: str, size: int = 32) -> bytes:
    return hashlib.shake_128(name.encode()).digest(size)


def _text_secret(name: str) -> bytes:
    """Return a secret that is printable text."""
    return base64.urlsafe_b64encode(_random_bytes(name, 24))


def _jwt(name: str) -> bytes:
    claims = {"sub": "carol", "exp": 1, "jti": _text_secret(f"claim of {name}").decode()}
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "RS256"}, claims))
    return b".".join((*parts, _text_secret(f"signature of {name}")))


PASSWORDS = {f"password {number}": _text_secret(f"password {number}") for number in range(6)}
PROOFS = {
    name: _random_bytes(name) for name in ("salt", "proof", "signature", "raw salt", "raw proof", "raw signature")
}
TOKENS = {name: _jwt(name) for name in ("accepted", "refused", "quoted", "raw", "bare")}
KERBEROS = {name: _random_bytes(name, 64) for name in ("ticket", "wrapped", "raw ticket")}
OTHERS = {name: _random_bytes(name) for name in ("hmac", "stored salt", "salted password", "external")}

SECRETS: dict[str, bytes] = (
    PASSWORDS
    | PROOFS
    | {f"base64 of {name}": base64.b64encode(secret) for name, secret in PROOFS.items()}
    | {f"{part} of token {name}": token.split(b".")[number] for name, token in TOKENS.items()
       for number, part in ((1, "claims"), (2, "signature"))}
    | {f"claim of token {name}": _text_secret(f"claim of {name}") for name in TOKENS}
    | KERBEROS
    | OTHERS
)  # fmt: skip
SEARCH = SecretSearch(SECRETS)
#: The test reads the terminal view with the cursor on every n-th row.
_STRIDE = 7
_AP_REQ = b"\x60\x60" + bytes.fromhex("06092a864886f712010202") + b"\x01\x00"


def _scram(prefix: str = "") -> tuple[bytes, bytes, bytes, bytes]:
    salt, proof, signature = (base64.b64encode(PROOFS[prefix + name]) for name in ("salt", "proof", "signature"))
    return (
        b"n,,n=alice,r=abcdef",
        b"r=abcdefghi,s=%b,i=4096" % salt,
        b"c=biws,r=abcdefghi,p=%b" % proof,
        b"v=%b" % signature,
    )


def _bearer(name: str) -> bytes:
    return b"n,,\x01auth=Bearer %b\x01\x01" % TOKENS[name]


def _login(connection: int, mechanism: str, *messages: bytes, error: str = "") -> Iterator[str]:
    """Yield the story lines of a login; its last response has the `error`, if there is one."""
    yield f'{connection}> SaslHandshake v1 {{"mechanism": "{mechanism}"}}'
    yield f'{connection}< {{"mechanisms": ["{mechanism}"]}}'
    for number, message in enumerate(messages):
        line_start = f"{connection}< " if number % 2 else f"{connection}> SaslAuthenticate v2 "
        yield f'{line_start}{{"auth_bytes": "{message.hex()}"}}'
    if error:
        yield f"{connection}< {json.dumps({'error_code': 58, 'error_message': error})}"
        yield f"{connection} close by=server how=fin"
    else:
        yield f'{connection}> Metadata v9 {{"topics": null}}'
        yield f"{connection}< {{}}"


def _raw_login(connection: int, mechanism: str, *messages: bytes) -> Iterator[str]:
    yield f'{connection}> SaslHandshake v0 {{"mechanism": "{mechanism}"}}'
    yield f'{connection}< {{"mechanisms": ["{mechanism}"]}}'
    for number, message in enumerate(messages):
        yield f"{connection}{'<' if number % 2 else '>'} hex {len(message):08x}{message.hex()}"
    yield f"{connection} close by=server how=fin"


def _story() -> Iterator[str]:
    password = list(PASSWORDS.values())
    wrong_password_message = "Authentication failed: Invalid username or password"
    yield from _login(1, "PLAIN", b"\0alice\0" + password[0], b"")
    yield from _login(2, "PLAIN", b"\0alice\0" + password[1], error=wrong_password_message)
    yield from _login(3, "PLAIN", b"\0" + password[2] + b"\0" + password[2], error=wrong_password_message)
    yield from _login(4, "PLAIN", b"alice\0" + password[3], error="Invalid SASL/PLAIN response")
    yield from _raw_login(5, "PLAIN", b"\0alice\0" + password[4], b"")
    yield from _raw_login(6, "PLAIN", b"\0alice\0" + password[5])
    yield from _login(7, "SCRAM-SHA-256", *_scram())
    yield from _login(8, "SCRAM-SHA-512", *_scram()[:3], error=wrong_password_message)
    yield from _login(9, "SCRAM-SHA-256", b"p=%b,," % password[0], error=wrong_password_message)
    yield from _login(10, "SCRAM-SHA-256", *_scram()[:3], b"e=" + password[1])
    yield from _raw_login(11, "SCRAM-SHA-256", *_scram("raw "))
    yield from _login(12, "OAUTHBEARER", _bearer("accepted"), b"")
    status = b'{"status":"%b","scope":"%b"}' % (TOKENS["refused"], TOKENS["refused"])
    yield from _login(13, "OAUTHBEARER", _bearer("refused"), status, b"\x01", error='{"status":"invalid_token"}')
    yield from _login(14, "OAUTHBEARER", _bearer("quoted"), error=f"bad token {TOKENS['quoted'].decode()}")
    yield from _raw_login(15, "OAUTHBEARER", _bearer("raw"), status)
    yield from _login(16, "OAUTHBEARER", TOKENS["bare"], error="malformed")
    yield from _login(17, "GSSAPI", _AP_REQ + KERBEROS["ticket"], b"", b"\x05\x04" + KERBEROS["wrapped"], b"")
    yield from _raw_login(18, "GSSAPI", _AP_REQ + KERBEROS["raw ticket"])
    yield from _login(19, "EXTERNAL", OTHERS["external"], b"")
    hmac = {"hmac": OTHERS["hmac"].hex()}
    token = json.dumps({"token_id": "t"} | hmac)
    yield f"1> CreateDelegationToken v3\n1< {token}"
    yield f'1> RenewDelegationToken v2 {json.dumps(hmac)}\n1< {{"error_code": 62}}'
    yield f'1> ExpireDelegationToken v2 {json.dumps(hmac)}\n1< {{"error_code": 66}}'
    yield f'1> DescribeDelegationToken v3\n1< {{"tokens": [{token}]}}'
    upsertion = {
        "name": "alice",
        "salt": OTHERS["stored salt"].hex(),
        "salted_password": OTHERS["salted password"].hex(),
    }
    yield f"1> AlterUserScramCredentials v0 {json.dumps({'upsertions': [upsertion]})}\n1< {{}}"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sasl") / "logins.pcap.gz"
    packets = record_story("\n".join(_story()))
    assert SEARCH.find(packets) == set(SECRETS)
    path.write_bytes(gzip.compress(packets))
    return path


def test_search_finds_a_secret_in_every_encoding() -> None:
    password = PASSWORDS["password 0"]
    surrounded_password = b"#" + password + b"#"
    for text in (
        surrounded_password,
        surrounded_password.hex(),
        surrounded_password[5:17].hex(" "),
        base64.b64encode(surrounded_password),
    ):
        assert SEARCH.find(text) == {"password 0"}


@pytest.mark.parametrize(
    "options",
    [
        (), ("-v",), ("--json", "--detail", "full"), ("--json", "--detail", "raw"), ("-v", "--detail", "raw"),
        ("--findings",), ("--findings", "--format", "json"), ("--findings", "--format", "sarif"),
        ("--findings", "--format", "junit"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_dissect_shows_no_secret(kproxy: Run, capture: Path, options: tuple[str, ...]) -> None:
    result = kproxy("dissect", *options, capture)
    assert result.returncode == 1, result.stderr
    assert SEARCH.find(result.stdout, result.stderr) == set()
    if "--findings" in options:
        for code in ("X008", "X020", "X021"):
            assert code in result.stdout
    elif "--json" in options:
        assert "User:alice" in result.stdout
        assert "User:carol" in result.stdout


@pytest.mark.slow
def test_page_has_no_secret(kproxy: Run, capture: Path) -> None:
    page = ParsedPage(kproxy("dissect", "--html", capture).stdout)
    packed = [json.dumps(page.unpacked(name)) for name, value in page.data.items() if _is_packed(value)]
    assert any("SaslAuthenticate" in text for text in packed)
    assert SEARCH.find(page.text, *packed) == set()


def _is_packed(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], str) and value[0].startswith("eN")


def test_viewer_shows_no_secret_of_a_frame(capture: Path) -> None:
    requests: dict[tuple[str, int], RequestLine] = {}
    shown_frames = 0
    for original in lines_of(capture, detail=Detail.RAW):
        encoded = bytearray()
        append_line(original, encoded)
        line = parse_line(bytes(encoded))
        assert SEARCH.find(repr(line)) == set()
        if isinstance(line, RequestLine | ResponseLine):
            request_line = (
                requests.get((line.connection_id, line.request_offset or 0)) if isinstance(line, ResponseLine) else None
            )
            detail = build_frame_detail(line, request_line)
            assert SEARCH.find(repr(detail), detail.frame or b"") == set()
            shown_frames += detail.frame is not None
        if isinstance(line, RequestLine):
            requests[line.connection_id, line.offset] = line
    assert shown_frames > 50


@pytest.mark.parametrize("options", [("--speed", "max"), ("--speed", "max", "--json")], ids=" ".join)
def test_replay_shows_no_secret(
    kproxy: Run, kproxy_broker: BrokerThread, capture: Path, options: tuple[str, ...]
) -> None:
    result = kproxy("replay", capture, kproxy_broker.bootstrap, *options)
    assert "Traceback" not in result.stderr
    assert "SaslAuthenticate" in result.stdout
    assert SEARCH.find(result.stdout, result.stderr) == set()


def test_diff_and_export_test_show_no_secret(kproxy: Run, capture: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pcap.gz"
    packets = gzip.decompress(capture.read_bytes())
    for secret in SECRETS.values():
        packets = packets.replace(secret, bytes(len(secret)))
    other.write_bytes(gzip.compress(packets))
    outputs = [kproxy("diff", *options, capture, other) for options in ((), ("--json",), ("--html",))]
    outputs += [kproxy("export-test", capture, f"{connection}:1") for connection in range(4)]
    assert any(result.stdout for result in outputs)
    for result in outputs:
        assert "Traceback" not in result.stderr
        assert SEARCH.find(result.stdout, result.stderr) == set()


@pytest.mark.slow
async def test_terminal_view_shows_no_secret(capture: Path) -> None:
    lines = list(lines_of(capture, detail=Detail.RAW))
    screens = set()
    async with running(session_of(lines), (180, 50)) as pilot:
        for _ in range(len(lines) // _STRIDE):
            screens.add(screen_text(pilot))
            await press(pilot, *["down"] * _STRIDE)
    assert SEARCH.find(*screens) == set()
    assert sum("redacted" in screen for screen in screens) > 10


def _shown_parts(explanation: Explanation) -> str:
    return repr((explanation.frame.hex(), explanation.body, explanation.rows, explanation.findings))


@pytest.mark.slow
def test_explain_shows_no_secret(kproxy: Run) -> None:
    for secret in SECRETS.values():
        for token in (b"\0alice\0" + secret, b"c=biws,r=x,p=" + secret, secret):
            for version in (0, 2):
                frame = request("SaslAuthenticate", version, {"auth_bytes": token})
                assert SEARCH.find(_shown_parts(explain(frame))) == set()
                response_frame = response("SaslAuthenticate", version, {"auth_bytes": token})
                assert SEARCH.find(_shown_parts(explain(response_frame, (36, version)))) == set()
    frame = request("SaslAuthenticate", 2, {"auth_bytes": _bearer("refused")})
    for options in ((), ("--json",)):
        result = kproxy("explain", *options, frame.hex(" "))
        assert "redacted" in result.stdout
        assert SEARCH.find(result.stdout, result.stderr) == set()
