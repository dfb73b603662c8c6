"""Real clients log in to the built-in broker and to real Kafka; the trace has the principal, or the failure."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kproxy.leaks import SecretSearch
from tests.peers import clients
from tests.peers.lab import PASSWORD, USER, Lab
from tests.peers.processes import until
from tests.peers.proxy import Proxy
from tests.peers.trace import Line, read_lines, trace_files

pytestmark = pytest.mark.peers

LIBRARIES = ("confluent", "kafka_python")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
#: Short enough that clients reauthenticate during a test.
SESSION_MS = 2000
BEFORE_LOGIN = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
_JAAS = "org.apache.kafka.common.security"


def jwt(**claims: Any) -> str:
    """Return an unsecured token."""
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims))
    return b".".join((*parts, b"")).decode()


def secret_of(mechanism: str, *, is_valid: bool = True) -> str:
    """Return a password or a token; if not valid, a wrong password or an expired token."""
    if mechanism != "OAUTHBEARER":
        return PASSWORD if is_valid else "Apfelstrudel-0815-falsch"
    now = int(time.time())
    return jwt(sub=USER, iat=now - 7200, exp=now + 3600 if is_valid else now - 3600)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    mechanisms = [option for mechanism in MECHANISMS for option in ("--sasl", mechanism)]
    user = ("--user", f"{USER}:{PASSWORD}", "--config", f"connections.max.reauth.ms={SESSION_MS}")
    proxy = Proxy(None, tmp_path_factory.mktemp("sasl"), "--detail", "raw", "-v", *mechanisms, *user)
    yield proxy
    proxy.kill_all()


def log_in(bootstrap: str, library: str, mechanism: str, secret: str, *, seconds: float = 0, user: str = USER) -> str:
    if reason := clients.missing(library):
        pytest.skip(reason)
    return clients.python_client("login", library, bootstrap, str(seconds), mechanism, user, secret).strip()


def lines_since(proxy: Proxy, earlier_line_count: int) -> list[Line]:
    """Wait until all connections are closed; return the lines after the first `earlier_line_count`."""

    def closed_lines() -> list[Line]:
        lines = read_lines(proxy.trace, torn_end=True)[earlier_line_count:]
        kinds = [line["kind"] for line in lines]
        return lines if kinds.count("open") == kinds.count("close") > 0 else []

    return until("all connections are closed", closed_lines)


def line_count(proxy: Proxy) -> int:
    return len(read_lines(proxy.trace, torn_end=True)) if proxy.trace.exists() else 0


def frames(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["kind"] in ("request", "response")]


def findings_with_code(lines: list[Line], code: str) -> list[Line]:
    findings = [
        finding for line in lines for finding in (line.get("findings", []) + [line] * (line["kind"] == "finding"))
    ]
    return [finding for finding in findings if finding["code"] == code]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_trace_has_the_principal_of_a_login(proxy: Proxy, library: str, mechanism: str) -> None:
    earlier_line_count = line_count(proxy)
    secret = secret_of(mechanism)
    assert log_in(proxy.bootstrap, library, mechanism, secret) == "ok"
    lines = lines_since(proxy, earlier_line_count)
    for line in frames(lines):
        assert line.get("principal") == f"User:{USER}" or line["api"] in BEFORE_LOGIN, line
    assert {line["principal"] for line in lines if line["kind"] == "close"} == {f"User:{USER}"}
    assert [code for code in ("X008", "X013", "X017", "X019", "X020") if findings_with_code(lines, code)] == []
    assert not find_secrets(proxy, secret)


def test_renewed_session_keeps_its_principal(proxy: Proxy) -> None:
    """librdkafka renews its session (KIP-368)."""
    earlier_line_count = line_count(proxy)
    assert log_in(proxy.bootstrap, "confluent", "SCRAM-SHA-512", PASSWORD, seconds=2 * SESSION_MS / 1000) == "ok"
    lines = lines_since(proxy, earlier_line_count)
    handshakes = [line for line in lines if line["kind"] == "request" and line["api"] == "SaslHandshake"]
    renewals = [line for line in handshakes if line.get("principal")]
    assert renewals
    assert {line.get("principal") for line in renewals} == {f"User:{USER}"}
    assert not findings_with_code(lines, "X010")


@pytest.mark.parametrize(
    ("library", "mechanism"),
    [("confluent", "PLAIN"), ("confluent", "OAUTHBEARER"), ("kafka_python", "SCRAM-SHA-256")],
)
def test_failed_login_is_reported_with_mechanism_and_reason(proxy: Proxy, library: str, mechanism: str) -> None:
    earlier_line_count = line_count(proxy)
    secret = secret_of(mechanism, is_valid=False)
    assert log_in(proxy.bootstrap, library, mechanism, secret).startswith("failed")
    lines = lines_since(proxy, earlier_line_count)
    assert {line.get("principal") for line in frames(lines)} == {None}
    assert any(line["errors"][0]["name"] == "SASL_AUTHENTICATION_FAILED" for line in frames(lines) if "errors" in line)
    messages = [line["message"] for line in findings_with_code(read_lines(proxy.trace, torn_end=True), "X008")]
    mechanism_messages = [message for message in messages if message.startswith(f"{mechanism} login")]
    assert mechanism_messages
    if mechanism == "OAUTHBEARER":
        assert any("invalid_token" in message and "the token expired" in message for message in mechanism_messages)
    assert not find_secrets(proxy, secret)


def find_secrets(proxy: Proxy, *secrets: str) -> set[str]:
    """Return the secrets that are in the trace or in the output."""
    search = SecretSearch({secret: secret.rpartition(".")[0].encode() or secret.encode() for secret in secrets})
    return search.find(proxy.printed, *(path.read_bytes() for path in trace_files(proxy.trace)))


def test_login_with_a_delegation_token_has_the_principal_of_its_owner(lab: Lab, tmp_path: Path) -> None:
    """Log in with Kafka's own client and a token from real Kafka."""
    with lab.chain("SASL", tmp_path, "--detail", "full", "-q") as chain:
        plain_config = write_config(
            tmp_path / "plain", "PLAIN", f'plain.PlainLoginModule required username="{USER}" password="{PASSWORD}"'
        )
        output = lab.kafka.tool(
            "delegation-tokens", "--bootstrap-server", chain.bootstrap, "--command-config", plain_config,
            "--create", "--max-life-time-period", "-1",
        )  # fmt: skip
        [hmac] = re.findall(r"[A-Za-z0-9+/]{86}==", output)
        [token_id] = set(re.findall(r"(?m)^([\w-]{22})\s", output))
        module = f'scram.ScramLoginModule required username="{token_id}" password="{hmac}" tokenauth="true"'
        token_config = write_config(tmp_path / "token", "SCRAM-SHA-256", module)
        lab.kafka.tool("topics", "--bootstrap-server", chain.bootstrap, "--command-config", token_config, "--list")
        chain.finish()
        lines = read_lines(chain.proxy.trace)
        assert {line.get("principal") for line in frames(lines) if line["api"] not in BEFORE_LOGIN} == {f"User:{USER}"}
        assert findings_with_code(lines, "X008") == []
        scram_connections = {line["connection_id"] for line in lines
                    if (line.get("body") or {}).get("mechanism") == "SCRAM-SHA-256"}  # fmt: skip
        assert scram_connections
        assert not SecretSearch({"hmac": base64.b64decode(hmac), "text": hmac.encode()}).find(
            chain.proxy.printed, *(path.read_bytes() for path in trace_files(chain.proxy.trace))
        )


@pytest.mark.parametrize(("library", "mechanism"), [("confluent", "PLAIN"), ("kafka_python", "SCRAM-SHA-512")])
def test_login_rejected_by_real_kafka_is_reported(lab: Lab, tmp_path: Path, library: str, mechanism: str) -> None:
    with lab.chain("SASL", tmp_path, "-q") as chain:
        wrong_secret = secret_of(mechanism, is_valid=False)
        assert log_in(chain.bootstrap, library, mechanism, wrong_secret).startswith("failed")
        chain.finish()
        lines = read_lines(chain.proxy.trace)
    finding = findings_with_code(lines, "X008")[0]
    assert finding["severity"] == "error"
    assert finding["message"].startswith(f"{mechanism} login of client ")
    assert "Authentication failed" in finding["message"]
    assert {line.get("principal") for line in frames(lines)} == {None}


def write_config(directory: Path, mechanism: str, module: str) -> str:
    """Write a file for ``--command-config``; return its path."""
    directory.with_suffix(".properties").write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={_JAAS}.{module};\n"
    )
    return str(directory.with_suffix(".properties"))
