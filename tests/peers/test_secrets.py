"""Clients log in with PLAIN and SCRAM, set credentials and make a token: none of it can be found in any output."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.peers import clients
from tests.peers.clients.session import SCRAM_ITERATIONS
from tests.peers.lab import PASSWORD, USER, Lab
from tests.peers.proxy import Chain
from tests.peers.trace import read_lines, trace_files

pytestmark = pytest.mark.peers

SALT = "0123456789abcdef"
LOGINS = {"confluent": "PLAIN", "kafka_python": "SCRAM-SHA-256", "aio": "SCRAM-SHA-512"}


@dataclass(frozen=True)
class Run:
    """What came out of kproxy, and what must not have: secrets by name, and where each was seen on the wire."""

    chain: Chain
    secrets: dict[str, bytes]


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
    with lab.chain("SASL", directory, "--detail", detail, "-v") as chain:
        clients.python_client("credentials", chain.bootstrap, SALT, "PLAIN", USER, PASSWORD)
        for client, mechanism in LOGINS.items():
            topic = f"sasl-{client}-{detail}"
            report = clients.run(client, lab.kafka.release, chain.bootstrap, topic, mechanism, USER, PASSWORD)
            assert report["consumed"] == report["produced"] > 0
        token = lab.kafka.tool(
            "delegation-tokens", "--bootstrap-server", chain.bootstrap, "--command-config", str(login),
            "--create", "--max-life-time-period", "-1",
        )  # fmt: skip
        chain.finish()
        yield Run(chain, secrets_of(chain, token))


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
