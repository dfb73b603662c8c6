"""When clients log in with every mechanism, set credentials and create a token, no output contains the secrets."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.peers import clients
from tests.peers.clients.session import SCRAM_ITERATIONS
from tests.peers.kafka import RELEASES, free_port
from tests.peers.lab import PASSWORD, USER, Lab
from tests.peers.outputs import Viewer, fetch_http_outputs, run_commands
from tests.peers.proxy import Chain
from tests.peers.trace import read_lines, trace_files

pytestmark = pytest.mark.peers

SALT = "0123456789abcdef"
LOGINS = {"confluent": "PLAIN", "kafka_python": "SCRAM-SHA-256", "aio": "SCRAM-SHA-512"}
WRONG_PASSWORD = "Apfelstrudel-0815-falsch"
#: APIs whose frames carry secrets.
SECRET_APIS = {"SaslAuthenticate": 36, "CreateDelegationToken": 38, "AlterUserScramCredentials": 51}


@dataclass(frozen=True)
class Run:
    """The outputs of kproxy, and the secrets that they must not contain, by name."""

    chain: Chain
    secrets: dict[str, bytes]
    #: Outputs by name, except the trace and the terminal.
    outputs: dict[str, bytes]


@pytest.fixture(scope="module", params=["summary", "full", "raw"])
def run(request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    detail: str = request.param
    if detail != "raw" and lab.kafka.release != RELEASES[0]:
        pytest.skip("what a level of detail hides does not depend on the release")
    for client in LOGINS:
        if reason := clients.missing(client):
            pytest.skip(reason)
    directory = tmp_path_factory.mktemp(detail)
    login = directory / "client.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";\n'
    )
    port, control = free_port(), directory / "control.sock"
    control.parent.chmod(0o700)
    output_options = ("--http", str(port), "--control", str(control))
    tokens = {"token": token_for(USER), "expired token": token_for(USER, exp=1)}
    with lab.chain("SASL", directory, "--detail", detail, "-v", *output_options) as chain:
        viewer = Viewer(control)
        clients.python_client("credentials", chain.bootstrap, SALT, "PLAIN", USER, PASSWORD)
        for client, mechanism in LOGINS.items():
            topic = f"sasl-{client}-{detail}"
            report = clients.run(client, lab.kafka.release, chain.bootstrap, topic, mechanism, USER, PASSWORD)
            assert report["consumed"] == report["produced"] > 0
        token = lab.kafka.tool(
            "delegation-tokens", "--bootstrap-server", chain.bootstrap, "--command-config", str(login),
            "--create", "--max-life-time-period", "-1",
        )  # fmt: skip
        for library in ("confluent", "kafka_python") if detail == "raw" else ("confluent",):
            arguments = ("login", library, chain.bootstrap, "0")
            assert clients.python_client(*arguments, "OAUTHBEARER", USER, tokens["token"]).strip() == "ok"
            assert "failed" in clients.python_client(*arguments, "OAUTHBEARER", USER, tokens["expired token"])
            assert "failed" in clients.python_client(*arguments, "PLAIN", USER, WRONG_PASSWORD)
        outputs = fetch_http_outputs(port)
        chain.finish()
        viewer.close()
        outputs["control socket"] = bytes(viewer.received)
        secrets = secrets_of(chain, token) | secrets_of_tokens(tokens) | {"wrong password": WRONG_PASSWORD.encode()}
        if detail == "raw":
            outputs |= run_commands(chain.proxy.trace, secret_frames(chain))
        yield Run(chain, secrets, outputs)


def token_for(user: str, **claims: Any) -> str:
    """Return an unsigned token with a claim that must not be shown."""
    now = int(time.time())
    body = {"sub": user, "iat": now - 60, "exp": now + 3600, "jti": f"jti-{USER}-of-this-token-alone", **claims}
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, body))
    return b".".join((*parts, b"")).decode()


def secrets_of_tokens(tokens: dict[str, str]) -> dict[str, bytes]:
    return {f"claims of the {name}": text.split(".")[1].encode() for name, text in tokens.items()} | {
        "claim of a token": f"jti-{USER}-of-this-token-alone".encode()
    }


def secret_frames(chain: Chain) -> list[bytes]:
    """Return the 20 longest requests that contain secrets, as sent."""
    frames_with_secrets: list[bytes] = []
    for connection in chain.front.connections:
        data = bytes(connection.requests.data)
        frames = [data[offset : offset + size] for offset, size in connection.requests.frames()]
        frames_with_secrets += [frame for frame in frames if int.from_bytes(frame[4:6], "big") in SECRET_APIS.values()]
    return sorted(frames_with_secrets, key=len)[-20:]


def secrets_of(chain: Chain, token: str) -> dict[str, bytes]:
    """Return the secrets as they were sent, by name."""
    wire = b"".join(
        bytes(connection.requests.data + connection.responses.data) for connection in chain.front.connections
    )
    [hmac] = re.findall(r"[A-Za-z0-9+/]{86}==", token)
    secrets = {
        "password": PASSWORD.encode(),
        "PLAIN token": f"\0{USER}\0{PASSWORD}".encode(),
        "SHA-256 salted password": hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), SALT.encode(), SCRAM_ITERATIONS),
        "SHA-512 salted password": hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), SALT.encode(), SCRAM_ITERATIONS),
        "delegation token": base64.b64decode(hmac),
    }
    exchanges = {
        "client first": rb"n,,n=alice,r=[\x21-\x2b\x2d-\x7e]+",
        "server first": rb"r=[\x21-\x2b\x2d-\x7e]+,s=[A-Za-z0-9+/=]+,i=\d+",
        "client final": rb"c=biws,r=[\x21-\x2b\x2d-\x7e]+,p=[A-Za-z0-9+/=]+",
        "proof": rb"(?<=,p=)[A-Za-z0-9+/=]+",
        "server final": rb"v=[A-Za-z0-9+/=]{44,}",
    }
    for name, pattern in exchanges.items():
        matches = set(re.findall(pattern, wire))
        assert matches, f"no {name} went over the wire"
        secrets |= {f"SCRAM {name} {number}": secret for number, secret in enumerate(sorted(matches))}
    assert [name for name, secret in secrets.items() if secret not in wire] == []
    return secrets


def encodings_of(secret: bytes) -> list[bytes]:
    """Return the encodings of a secret in text: plain, hex, and base64 at each of three alignments."""
    encodings = [secret, secret.hex().encode(), secret.hex(" ").encode(), secret.hex().upper().encode()]
    for skipped in range(3):
        encoded = base64.b64encode(bytes(skipped) + secret)
        # Omit characters that also encode bits of adjacent bytes.
        first = -(-skipped * 4 // 3)
        last = (skipped + len(secret)) * 4 // 3
        encodings.append(encoded[first:last])
    return encodings


def find_leaks(secrets: dict[str, bytes], text: bytes) -> list[str]:
    return [name for name, secret in secrets.items() if any(encoding in text for encoding in encodings_of(secret))]


@pytest.mark.parametrize("preceding_bytes", [0, 1, 2, 3, 4])
def test_secret_inside_base64_is_found(preceding_bytes: int) -> None:
    text = base64.b64encode(b"#" * preceding_bytes + b"a secret" + b"#" * 5)
    assert find_leaks({"it": b"a secret", "other": b"another"}, text) == ["it"]


def test_trace_has_frames_of_all_apis_but_no_secrets(run: Run) -> None:
    lines = read_lines(run.chain.proxy.trace)
    assert {"SaslAuthenticate", "AlterUserScramCredentials", "CreateDelegationToken", "IncrementalAlterConfigs"} <= {
        line.get("api") for line in lines
    }
    for path in trace_files(run.chain.proxy.trace):
        assert find_leaks(run.secrets, path.read_bytes()) == []


def test_terminal_shows_no_secrets(run: Run) -> None:
    assert "SaslAuthenticate" in run.chain.proxy.printed
    assert find_leaks(run.secrets, run.chain.proxy.printed.encode()) == []


def test_metrics_control_socket_and_command_outputs_contain_no_secrets(run: Run) -> None:
    assert b"kproxy_" in run.outputs["/metrics"]
    assert b'"frame":' in run.outputs["control socket"]
    assert b'"connections":' in run.outputs["control socket"]
    assert all(
        b"SaslAuthenticate" in run.outputs[name] for name in run.outputs if name[0] == "-" and "findings" not in name
    )
    assert {name: leaked for name, text in run.outputs.items() if (leaked := find_leaks(run.secrets, text))} == {}
