"""Clients log in with every mechanism, set credentials and make a token: none of it can be found in any output."""

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
from tests.peers.kafka import free_port
from tests.peers.lab import PASSWORD, USER, Lab
from tests.peers.outputs import Viewer, http, read_by_commands
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
    """What came out of kproxy, and what must not have: secrets by name, and where each was seen on the wire."""

    chain: Chain
    secrets: dict[str, bytes]
    #: By name, other than the trace and the terminal.
    outputs: dict[str, bytes]


@pytest.fixture(scope="module", params=["summary", "full", "raw"])
def run(request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    detail: str = request.param
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
    watched = ("--http", str(port), "--control", str(control))
    tokens = {"token": token_for(USER), "expired token": token_for(USER, exp=1)}
    with lab.chain("SASL", directory, "--detail", detail, "-v", *watched) as chain:
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
        outputs = http(port)
        chain.finish()
        viewer.close()
        outputs["control socket"] = bytes(viewer.received)
        secrets = secrets_of(chain, token) | secrets_of_tokens(tokens) | {"wrong password": WRONG_PASSWORD.encode()}
        if detail == "raw":
            outputs |= read_by_commands(chain.proxy.trace, secret_frames(chain))
        yield Run(chain, secrets, outputs)


def token_for(user: str, **claims: Any) -> str:
    """Without a signature, but with something in it that must not be shown."""
    now = int(time.time())
    body = {"sub": user, "iat": now - 60, "exp": now + 3600, "jti": f"jti-{USER}-of-this-token-alone", **claims}
    parts = (base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in ({"alg": "none"}, body))
    return b".".join((*parts, b"")).decode()


def secrets_of_tokens(tokens: dict[str, str]) -> dict[str, bytes]:
    return {f"claims of the {name}": text.split(".")[1].encode() for name, text in tokens.items()} | {
        "claim of a token": f"jti-{USER}-of-this-token-alone".encode()
    }


def secret_frames(chain: Chain) -> list[bytes]:
    """Requests with secrets as they went over the wire: one of each API and mechanism, and every token."""
    found: list[bytes] = []
    for connection in chain.front.connections:
        data = bytes(connection.requests.data)
        frames = [data[offset : offset + size] for offset, size in connection.requests.frames()]
        found += [frame for frame in frames if int.from_bytes(frame[4:6], "big") in SECRET_APIS.values()]
    return sorted(found, key=len)[-20:]


def secrets_of(chain: Chain, token: str) -> dict[str, bytes]:
    """By name, as they went over the wire."""
    wire = b"".join(bytes(c.requests.data + c.responses.data) for c in chain.front.connections)
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
        found = set(re.findall(pattern, wire))
        assert found, f"no {name} went over the wire"
        secrets |= {f"SCRAM {name} {number}": secret for number, secret in enumerate(sorted(found))}
    assert [name for name, secret in secrets.items() if secret not in wire] == []
    return secrets


def spellings(secret: bytes) -> list[bytes]:
    """The secret as it would stand in text: itself, in hex, and in base64 at each of three alignments."""
    written = [secret, secret.hex().encode(), secret.hex(" ").encode(), secret.hex().upper().encode()]
    for skipped in range(3):
        whole = base64.b64encode(bytes(skipped) + secret)
        # Characters that also hold bits of the bytes around it are left out.
        first = -(-skipped * 4 // 3)
        last = (skipped + len(secret)) * 4 // 3
        written.append(whole[first:last])
    return written


def leaks(secrets: dict[str, bytes], text: bytes) -> list[str]:
    return [name for name, secret in secrets.items() if any(spelling in text for spelling in spellings(secret))]


@pytest.mark.parametrize("before", [0, 1, 2, 3, 4])
def test_search_finds_a_secret_inside_base64(before: int) -> None:
    text = base64.b64encode(b"#" * before + b"a secret" + b"#" * 5)
    assert leaks({"it": b"a secret", "other": b"another"}, text) == ["it"]


def test_trace_has_every_frame_but_no_secret(run: Run) -> None:
    lines = read_lines(run.chain.proxy.trace)
    assert {"SaslAuthenticate", "AlterUserScramCredentials", "CreateDelegationToken", "IncrementalAlterConfigs"} <= {
        line.get("api") for line in lines
    }
    for path in trace_files(run.chain.proxy.trace):
        assert leaks(run.secrets, path.read_bytes()) == []


def test_terminal_shows_no_secret(run: Run) -> None:
    assert "SaslAuthenticate" in run.chain.proxy.printed
    assert leaks(run.secrets, run.chain.proxy.printed.encode()) == []


def test_no_other_output_has_a_secret(run: Run) -> None:
    assert b"kproxy_" in run.outputs["/metrics"]
    assert b'"frame":' in run.outputs["control socket"]
    assert b'"connections":' in run.outputs["control socket"]
    assert all(
        b"SaslAuthenticate" in run.outputs[name] for name in run.outputs if name[0] == "-" and "findings" not in name
    )
    assert {name: found for name, text in run.outputs.items() if (found := leaks(run.secrets, text))} == {}
