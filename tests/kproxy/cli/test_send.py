"""`kproxy send` to the built-in broker, and to servers that are not brokers."""

from __future__ import annotations

import json
import re
import shlex
import socket
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kproxy.broker.threaded import BrokerThread
from kproxy.development_ca import certificates, store
from tests.kproxy.cli.conftest import Run

METADATA_V0 = "00000016 0003 0000 00000001 0000 00000001 0006 6f7264657273"


@contextmanager
def server(handle: Callable[[socket.socket], object]) -> Iterator[str]:
    """Run a server that handles one connection with `handle` and then closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as accepted:
                handle(accepted)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


@pytest.mark.kproxy_broker(topics={"orders": 1})
def test_shows_request_and_response_byte_by_byte(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    result = kproxy("send", kproxy_broker.bootstrap, "Metadata", "-v", 0, "topics=orders")
    assert (result.returncode, result.stderr) == (0, "")
    request, response, _ = result.stdout.split("\n\n")
    assert request.startswith("Metadata v0 request, 32 bytes\n")
    assert '00 06 6f 72 64 65 72 73  topics[0].name              "orders"' in request
    assert "Metadata v0 response, " in response
    assert ", after " in response.partition("\n")[0]
    assert "topics[0].partitions[0].leader_id" in response


def test_chooses_the_newest_version(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    result = kproxy("send", kproxy_broker.bootstrap, "metadata", "ApiVersions:0", "--json")
    metadata, versions = map(json.loads, result.stdout.splitlines())
    assert (metadata["request"]["api_version"], versions["request"]["api_version"]) == (13, 0)
    assert versions["response"]["body"]["error_code"] == 0
    assert metadata["problem"] is None
    assert metadata["latency_ms"] > 0


@pytest.mark.kproxy_broker(release="0.10.0")
def test_chooses_a_version_that_an_old_broker_supports(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    result = kproxy("send", kproxy_broker.bootstrap, "Metadata", "--json")
    assert json.loads(result.stdout)["request"]["api_version"] == 1
    result = kproxy("send", kproxy_broker.bootstrap, "ShareFetch")
    assert (result.returncode, result.stderr) == (
        1, "kproxy: the broker does not advertise ShareFetch: pass -v N to send it nevertheless\n",
    )  # fmt: skip


def test_pipelines_requests_from_standard_input(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    lines = ['{"api": "Metadata", "version": 1, "body": {"topics": null}}', "", '{"api": 18}']
    result = kproxy("send", kproxy_broker.bootstrap, "-", "--json", stdin="\n".join(lines))
    assert [json.loads(line)["response"]["api"] for line in result.stdout.splitlines()] == ["Metadata", "ApiVersions"]
    result = kproxy("send", kproxy_broker.bootstrap, "-", stdin='{"api": 3}\n{"apii": 3}')
    assert result.returncode == 2
    assert 'line 2: expected {"api", "version"?, "body"?, "edit"?}' in result.stderr


@pytest.mark.kproxy_broker(topics={"orders": 1})
def test_fetches_produced_records(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    def send(*words: str) -> list[dict[str, object]]:
        result = kproxy("send", kproxy_broker.bootstrap, "--json", *words)
        assert (result.returncode, result.stderr) == (0, "")
        return [json.loads(line) for line in result.stdout.splitlines()]

    produce = ["Produce:9", "timeout_ms=1000", "topic_data=orders", "topic_data.partition_data=0",
               "topic_data.partition_data.records=hello"]  # fmt: skip
    unacknowledged, acknowledged = send(*produce, "acks=0", *produce, "acks=-1")
    assert unacknowledged["response"] is None
    assert unacknowledged["problem"] is None
    assert acknowledged["response"]["body"]["responses"][0]["partition_responses"][0]["base_offset"] == 1  # type: ignore[index]
    [fetched] = send("Fetch:11", "max_bytes=1000", "topics=orders", "topics.partitions=0",
                     "topics.partitions.partition_max_bytes=1000")  # fmt: skip
    assert "aGVsbG8=" in json.dumps(fetched["response"])


@pytest.mark.kproxy_broker(topics={"orders": 1}, quirks=["Metadata:9:moved:cluster_id:first"])
def test_finding_about_the_response_sets_the_exit_status(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    command = ("send", kproxy_broker.bootstrap, "Metadata", "-v", 9, "topics=orders")
    result = kproxy(*command)
    assert result.returncode == 1
    assert "cluster_id is written" in result.stdout
    assert kproxy(*command, "--fail-on", "never").returncode == 0


@pytest.mark.kproxy_broker(topics={"orders": 1}, quirks=["Metadata:9:correlation_id:+5"])
def test_reports_a_response_with_a_wrong_correlation_id(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    result = kproxy("send", kproxy_broker.bootstrap, "Metadata:9", "topics=orders")
    assert (result.returncode, result.stderr) == (
        1,
        "kproxy: the response has correlation id 6, not 1 as its request\n",
    )


@pytest.mark.kproxy_broker(topics={"orders": 1})
def test_sends_raw_bytes_unchanged(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    result = kproxy("send", kproxy_broker.bootstrap, "--raw", METADATA_V0, "--json")
    exchange = json.loads(result.stdout)
    assert exchange["response"]["body"]["topics"][0]["name"] == "orders"
    result = kproxy("send", kproxy_broker.bootstrap, "--raw", "-", "--json", stdin=METADATA_V0 * 2)
    assert len(result.stdout.splitlines()) == 2
    result = kproxy("send", kproxy_broker.bootstrap, "--raw", "000000010", "--json")
    assert result.returncode == 2
    assert result.stderr.startswith("kproxy: --raw: ")


def test_sends_an_edited_request(kproxy: Run) -> None:
    with server(lambda accepted: accepted.recv(4096)) as address:
        result = kproxy("send", address, "Metadata:12", "topics=orders", "--edit", "moved:topics:last", "ApiVersions")
        assert "--edit applies to one request" in result.stderr
        result = kproxy("send", address, "Metadata:12", "topics=orders", "--edit", "moved:topics:last")
    assert (result.returncode, result.stderr) == (1, "kproxy: the broker closed the connection\n")
    assert "decoded as actually written: topics is written" in result.stdout


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "the broker closed the connection"),
        (b"\0\0\0\x10\0\0", "the broker closed the connection after 6 bytes of a response"),
        (
            b"\x15\x03\x03\x00\x02\x02\x0a",
            "the broker answers with a TLS alert: pass --tls after 7 bytes of a response",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n", "the response's length prefix is 1213486160: this is not Kafka's protocol"),
    ],
)
def test_reports_servers_without_a_valid_response(kproxy: Run, data: bytes, sentence: str) -> None:
    def handle(accepted: socket.socket) -> None:
        accepted.recv(4096)
        accepted.sendall(data)

    with server(handle) as address:
        result = kproxy("send", address, "Metadata:0", "ApiVersions:0", "--json")
    problems = [json.loads(line)["problem"] for line in result.stdout.splitlines()]
    assert problems[0].startswith(sentence)
    assert problems[1] == "not answered either"
    assert result.returncode == 1


def test_reports_a_timeout(kproxy: Run) -> None:
    finished = threading.Event()
    with server(lambda _: finished.wait(10)) as address:
        result = kproxy("send", address, "Metadata:0", "--timeout", 0.2)
        finished.set()
    assert (result.returncode, result.stderr) == (1, "kproxy: no response within 0.2 s\n")


def test_encode_prints_hex(kproxy: Run) -> None:
    result = kproxy("send", "--encode", "Metadata", "-v", 0, "topics=orders", "--client-id", "")
    assert result.stdout == METADATA_V0.replace(" ", "") + "\n"
    assert kproxy("explain", "-", stdin=result.stdout).returncode == 0


def test_connects_with_tls_and_logs_in(kproxy: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(tmp_path, certificates.create(["127.0.0.1"], 10))
    certificate, key, ca = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem"
    with BrokerThread(
        tls_certificate=certificate, tls_key=key, sasl=("SCRAM-SHA-512",), users={"alice": "sesame"}
    ) as broker:
        tls = ("send", broker.bootstrap, "Metadata", "--tls")
        login = ("--sasl-mechanism", "scram-sha-512", "--sasl-username", "alice")
        result = kproxy(*tls, *login)
        assert (result.returncode, "needs a password" in result.stderr) == (2, True)
        (tmp_path / "password").write_text("sesame\n")
        result = kproxy(*tls, *login, "--ca", ca, "--sasl-password-file", tmp_path / "password", "--json")
        assert json.loads(result.stdout)["response"]["body"]["brokers"]
        monkeypatch.setenv("KPROXY_SASL_PASSWORD", "wrong")
        result = kproxy(*tls, *login, "--insecure")
        assert result.returncode == 1
        assert "the broker rejects the login: Authentication failed" in result.stderr
        result = kproxy(*tls, *login)
        assert result.returncode == 3
        assert "certificate rejected: " in result.stderr
        result = kproxy("send", broker.bootstrap, "Metadata", "--timeout", 5)
        assert result.returncode == 1
        assert "sesame" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        ((), 2, "pass the broker's address and a request"),
        (("localhost:x", "Metadata"), 2, "the broker's address 'localhost:x': invalid port 'x'"),
        (("localhost:1",), 2, "pass a request"),
        (("localhost:1", "topics=a"), 2, "'topics=a' is before the first request"),
        (("localhost:1", "Metdata"), 2, "unknown API 'Metdata'; did you mean Metadata?"),
        (("localhost:1", "Metadata:99", "--encode"), 2, "unknown API"),
        (("localhost:1", "Metadata", "--timeout", 0), 2, "--timeout 0: use a positive number"),
        (("localhost:1", "Metadata", "--ca", "x"), 2, "--ca needs --tls"),
        (("localhost:1", "Metadata", "--sasl-username", "x"), 2, "need --sasl-mechanism"),
        (("localhost:1", "Metadata", "--sasl-mechanism", "GSSAPI"), 2, "use one of PLAIN"),
        (("localhost:1", "Metadata", "--edit", "nope"), 2, "--edit: unknown kind 'nope'"),
        (("localhost:1", "Metadata", "--raw", "00"), 2, "--raw sends bytes as they are"),
        (("localhost:1", "Metadata"), 3, "cannot connect to localhost:1: connection refused; is the broker running?"),
    ],
)
def test_usage_errors_print_one_sentence(kproxy: Run, words: tuple[object, ...], status: int, sentence: str) -> None:
    result = kproxy("send", *words)
    assert result.returncode == status
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.kproxy_broker(topics={"orders": 1})
def test_commands_in_the_documentation_print_what_it_shows(kproxy: Run, kproxy_broker: BrokerThread) -> None:
    page = (Path(__file__).parents[3] / "docs/send.md").read_text()
    commands = re.findall(r"^    \$ kproxy (send .*)$", page, re.MULTILINE)
    assert len(commands) >= 6
    outputs = {}
    for command in commands:
        result = kproxy(*shlex.split(command.replace("localhost:9092", kproxy_broker.bootstrap)))
        assert result.returncode == ("--edit" in command), command + result.stdout + result.stderr
        outputs[command] = result.stdout
    request, _, _ = outputs[commands[0]].partition("\n\n")
    assert textwrap.indent(request, "    ") in page
    assert '"hello" (5 bytes)' in outputs[commands[2]]
