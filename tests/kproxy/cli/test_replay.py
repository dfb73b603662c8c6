"""`kproxy replay` against the built-in broker."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from kproxy.broker.threaded import BrokerThread
from kproxy.trace.encoding import encode_line
from tests.kproxy.cli.conftest import Run
from tests.kproxy.cli.test_relay import running
from tests.kproxy.frames import request
from tests.kproxy.replay.capture_stories import lines

ROOT = Path(__file__).parents[3]
STORY = """
> Metadata v12 {"topics": [{"name": "orders"}]}
< {"brokers": [{"node_id": 1, "host": "kafka", "port": 9092}], "cluster_id": "x", "controller_id": 1,
  "topics": [{"name": "orders", "topic_id": "BBBBBBBBBBBBBBBBBBBBBA", "topic_authorized_operations": -2147483648,
  "partitions": [{"partition_index": 0, "leader_id": 1, "leader_epoch": 5, "replica_nodes": [1], "isr_nodes": [1]}]}]}
> SaslHandshake v1 {"mechanism": "PLAIN"}
< {}
> Produce v9 {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": "orders", "partition_data": [{"index": 0,
  "records": [{"records": [{"value": "v"}]}]}]}]}
< {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": %d, "log_start_offset": 0}]}]}
2> Fetch v13 {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1000, "topics": [{"topic_id": "BBBBBBBBBBBBBBBBBBBBBA",
  "partitions": [{"partition": 0, "current_leader_epoch": 5, "fetch_offset": 0, "partition_max_bytes": 1000}]}]}
2< {"responses": [{"topic_id": "BBBBBBBBBBBBBBBBBBBBBA", "partitions": [{"partition_index": 0, "high_watermark": 1,
  "last_stable_offset": 1, "log_start_offset": 0, "aborted_transactions": null, "records": [{
  "records": [{"value": "v"}], "partition_leader_epoch": 5}]}]}]}
"""


def write_trace(path: Path, base_offset: int = 0) -> Path:
    path.write_bytes(b"".join(map(encode_line, lines(STORY % base_offset))))
    return path


@pytest.fixture
def recorded_trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.jsonl")


@pytest.mark.kproxy_broker(topics={"orders": 1})
def test_equal_responses_are_reported(kproxy: Run, kproxy_broker: BrokerThread, recorded_trace: Path) -> None:
    result = kproxy("replay", recorded_trace, kproxy_broker.bootstrap, "--speed", "max")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "left out: 1 SaslHandshake v1: the login is not in the capture\n"
        "requests: 3 sent, 1 left out; responses: 3 equal, 0 different, 0 not compared\n"
    )


CLUSTER = """
open 1 client=10.0.0.9:1 server=10.0.0.1:9092
open 2 client=10.0.0.9:2 server=10.0.0.2:9092
> CreateTopics v4 {"timeout_ms": 5000, "topics": [{"name": "new", "num_partitions": 2, "replication_factor": 1}]}
< {"topics": [{"name": "new"}]}
> Metadata v8 {"topics": [{"name": "new"}]}
< {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}, {"node_id": 2, "host": "10.0.0.2", "port": 9092}],
  "cluster_id": "x", "controller_id": 1, "topics": [{"name": "new", "partitions": [
  {"partition_index": 0, "leader_id": 2, "leader_epoch": 0, "replica_nodes": [2], "isr_nodes": [2]},
  {"partition_index": 1, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}]}]}
2> Produce v8 {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "new", "partition_data": [{"index": 0,
  "records": [{"records": [{"value": "v"}]}]}]}]}
2< {"responses": [{"name": "new", "partition_responses": [{"index": 0, "log_start_offset": 0}]}]}
> Produce v8 {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "new", "partition_data": [{"index": 1,
  "records": [{"records": [{"value": "v"}]}]}]}]}
< {"responses": [{"name": "new", "partition_responses": [{"index": 1, "log_start_offset": 0}]}]}
"""


@pytest.mark.kproxy_broker(brokers=2)
def test_replayed_trace_of_two_brokers_gets_equal_responses(
    kproxy: Run, kproxy_broker: BrokerThread, tmp_path: Path
) -> None:
    recorded_trace = tmp_path / "trace.jsonl"
    recorded_trace.write_bytes(b"".join(map(encode_line, lines(CLUSTER))))
    result = kproxy("replay", recorded_trace, kproxy_broker.bootstrap.partition(",")[0], "--speed", "max")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "responses: 4 equal, 0 different" in result.stdout


@pytest.mark.kproxy_broker(topics={"orders": 1}, sasl=("PLAIN",), users={"alice": "sesame"})
def test_logs_in_as_the_given_user(
    kproxy: Run, kproxy_broker: BrokerThread, recorded_trace: Path, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("sesame")
    login = ("--sasl-mechanism", "plain", "--sasl-username", "alice", "--sasl-password-file", tmp_path / "password")
    assert kproxy("replay", recorded_trace, kproxy_broker.bootstrap, "--speed", "max", *login).returncode == 0
    result = kproxy("replay", recorded_trace, kproxy_broker.bootstrap, "--speed", "max")
    assert result.returncode == 1
    assert "Metadata v12: no response: the broker closed the connection  (request 1 of story-1)\n" in result.stdout


@pytest.mark.kproxy_broker(topics={"orders": 1})
def test_different_responses_are_reported(kproxy: Run, kproxy_broker: BrokerThread, tmp_path: Path) -> None:
    recorded_trace = write_trace(tmp_path / "trace.jsonl", base_offset=7)
    result = kproxy("replay", recorded_trace, kproxy_broker.bootstrap, "--speed", "1000", "-f", "api!=Fetch")
    assert result.returncode == 1
    [first_line, *_] = result.stdout.splitlines()
    assert first_line == (
        "Produce v9 responses[0].partition_responses[0].base_offset: captured 7, live 0  (request 3 of story-1)"
    )
    assert "left out: 1 Fetch v13: --filter does not match\n" in result.stdout
    result = kproxy("replay", recorded_trace, kproxy_broker.bootstrap, "--speed", "max", "--json")
    *results, summary = map(json.loads, result.stdout.splitlines())
    assert [(entry["api"], entry["outcome"]) for entry in results] == [
        ("Metadata", "equal"), ("SaslHandshake", "left out"), ("Produce", "different"), ("Fetch", "different"),
    ]  # fmt: skip
    assert results[2]["differences"] == [
        {"path": "responses[0].partition_responses[0].base_offset", "why": "value", "captured": 7, "live": 1}
    ]
    assert summary == {"summary": {"equal": 1, "different": 2, "not compared": 0, "left out": 1}}


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("missing.pcap", "localhost:9092"), 2, "missing.pcap: No such file"),
        ((ROOT / "README.md", "localhost:9092"), 2, "README.md"),
        ((ROOT / "docs", "localhost:9092"), 2, "no trace (*.jsonl) and no capture"),
        ((ROOT / "captures/trace-1.jsonl", "localhost:9092", "--speed", "0"), 2, "--speed 0: use a positive number"),
        ((ROOT / "captures/trace-1.jsonl", "localhost"), 2, "localhost"),
        ((ROOT / "captures/trace-1.jsonl", "localhost:1"), 3, "cannot connect to localhost:1"),
        ((ROOT / "captures/http-on-kafkas-port.pcap.gz", "localhost:1"), 5, ""),
    ],
)
def test_usage_errors_print_one_sentence(kproxy: Run, words: tuple[object, ...], status: int, sentence: str) -> None:
    result = kproxy("replay", *words)
    assert result.returncode == status
    assert sentence in result.stderr
    assert result.stderr.count("\n") == bool(sentence)


def test_rejects_a_trace_without_bytes(kproxy: Run, tmp_path: Path) -> None:
    trace_lines = lines("> Heartbeat v4 {}")
    trace_lines[-1].frame = None  # type: ignore[union-attr]
    (tmp_path / "trace.jsonl").write_bytes(b"".join(map(encode_line, trace_lines)))
    result = kproxy("replay", "trace.jsonl", "localhost:1")
    assert (result.returncode, result.stderr) == (
        2, "kproxy: trace.jsonl: the trace has no bytes of requests: record it with --detail raw\n",
    )  # fmt: skip


def test_reports_a_damaged_trace(kproxy: Run, recorded_trace: Path) -> None:
    recorded_trace.write_bytes(recorded_trace.read_bytes().replace(b'"frame":"', b'"frame":"A'))
    result = kproxy("replay", recorded_trace, "localhost:1")
    assert result.returncode == 2
    assert "trace.jsonl: a line is damaged: " in result.stderr


@pytest.mark.kproxy_broker
def test_commands_in_the_documentation_succeed_or_report_differences(
    kproxy: Run, kproxy_broker: BrokerThread, tmp_path: Path
) -> None:
    page = (ROOT / "docs/replay.md").read_text()
    commands = re.findall(r"^    \$ kproxy (replay .*)$", page, re.MULTILINE)
    assert len(commands) >= 4
    shutil.copy(ROOT / "captures/librdkafka-metadata-three-bytes-too-many.pcap.gz", tmp_path / "capture.pcap.gz")
    for command in commands:
        result = kproxy(*shlex.split(command.replace("localhost:9092", kproxy_broker.bootstrap)))
        assert result.returncode in (0, 1), command + result.stdout + result.stderr
        assert result.stderr == ""


@pytest.mark.slow
def test_serves_clients_from_a_capture(tmp_path: Path) -> None:
    capture = ROOT / "captures" / "metadata-v1-throttle-first.pcap.gz"
    options = ["--replay", capture, "--no-control"]
    with running(tmp_path, *options) as proxy, proxy.connect() as client:
        client.sendall(request("Metadata", 1, {"topics": [{"name": "orders"}]}, correlation_id=7))
        with client.makefile("rb") as responses:
            assert responses.read(16).hex(" ", 4) == "00000051 00000007 00000000 00000001"  # the throttle time first
        out, _ = proxy.end()
    assert "L005 field-from-newer-version" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--replay no", "pass --listen"),
        ("--listen 0 --replay trace.jsonl --upstream a:1", "takes the place of the brokers: leave out --upstream"),
        ("--listen 0 --replay trace.jsonl --advertise", "leave out --advertise"),
        ("--listen 0 --replay trace.jsonl --upstream-tls", "--upstream-tls cannot be used with --replay"),
        ("--listen unix:s --replay trace.jsonl", "--replay needs a TCP port"),
        ("--listen 0 --replay no", "no: No such file or directory"),
        (f"--listen 0 --replay {ROOT / 'captures/tls-on-kafkas-port.pcap.gz'}", "no request that can be answered"),
    ],
)  # fmt: skip
def test_invalid_replay_option_prints_one_sentence(kproxy: Run, recorded_trace: Path, words: str, message: str) -> None:
    assert recorded_trace.exists()
    result = kproxy(*words.split(), "--no-control", "--no-trace")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    assert message in result.stderr
